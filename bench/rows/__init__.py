# SPDX-License-Identifier: Apache-2.0
"""All comparisons by name, in the order in which --list shows them."""

from rows import catalog, decode, mount, objects, python, reader, records

ROWS = {row.name: row for row in (*reader.ROWS, *mount.ROWS, *records.ROWS, *objects.ROWS, *decode.ROWS, *python.ROWS,
                                  *catalog.ROWS)}
