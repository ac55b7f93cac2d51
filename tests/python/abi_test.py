# SPDX-License-Identifier: Apache-2.0
"""headrace/_abi.py says the same as capi/headrace.h."""
import ctypes
import re
import unittest

import support
from headrace import _abi

HEADER = (support.ROOT / "capi/headrace.h").read_text()
CODE = re.sub(r"//[^\n]*", "", HEADER)
TYPES = {"uint64_t": ctypes.c_uint64, "int64_t": ctypes.c_int64, "uint32_t": ctypes.c_uint32,
         "int32_t": ctypes.c_int32, "uint8_t": ctypes.c_uint8, "double": ctypes.c_double,
         "const char*": ctypes.c_char_p, "void*": ctypes.c_void_p, "const void*": ctypes.c_void_p,
         "hr_dataset*": ctypes.c_void_p, "const hr_dataset*": ctypes.c_void_p, "hr_loader*": ctypes.c_void_p,
         "const hr_loader*": ctypes.c_void_p, "char*": ctypes.c_char_p, "void": None}


def type_of(words):
    words = words.strip()
    if words in TYPES:
        return TYPES[words]
    pointed = re.fullmatch(r"(?:const )?(\w+?)\*(\*?)", words)
    name, twice = pointed.groups()
    inner = _abi.STRUCTS.get(name) or TYPES.get(name) or ctypes.c_void_p
    return ctypes.POINTER(ctypes.POINTER(inner) if twice and name in _abi.STRUCTS else inner)


def fields_of(body):
    for words, name, count in re.findall(r"([\w ]+\**) ?\b(\w+)(?:\[(\d+)\])?;", body):
        kind = type_of(words.strip())
        yield name, kind * int(count) if count else kind


class AbiTest(unittest.TestCase):
    def test_structs_have_the_fields_of_the_header(self):
        found = re.findall(r"typedef struct (\w+) \{(.*?)\} \w+;", CODE, re.DOTALL)
        self.assertEqual({name for name, _ in found}, set(_abi.STRUCTS))
        for name, body in found:
            self.assertEqual(list(fields_of(body)), list(_abi.STRUCTS[name]._fields_), name)

    def test_functions_have_the_signatures_of_the_header(self):
        found = re.findall(r"HR_API ([\w ]+\**) ?(hr_\w+)\(([^)]*)\);", CODE)
        self.assertEqual({name for _, name, _ in found}, set(_abi._SIGNATURES))
        for result, name, arguments in found:
            kinds = [] if arguments == "void" else [type_of(re.sub(r"\w+$", "", one).strip())
                                                    for one in re.sub(r"\s+", " ", arguments).split(",")]
            self.assertEqual((type_of(result), kinds), _abi._SIGNATURES[name], name)

    def test_a_loader_that_a_signals_handler_has_closed_is_an_error(self):
        """It can come between the look whether the loader is open and the call."""
        closed, batch = ctypes.c_void_p(), ctypes.POINTER(_abi.STRUCTS["hr_batch"])()
        with self.assertRaisesRegex(ValueError, "was it closed"):
            _abi.check_next(_abi.lib.hr_loader_next(closed, 0, ctypes.byref(batch)))
        self.assertEqual(_abi.text_of(_abi.lib.hr_loader_report, closed), "")
        _abi.lib.hr_loader_stop(closed)
        _abi.lib.hr_loader_close(closed)

    def test_numbers_are_those_of_the_header(self):
        numbers = {name: int(value) for name, value in re.findall(r"\bHR_(\w+) = (\d+)", CODE)}
        self.assertGreater(len(numbers), 30)
        for name in ("OK", "END", "TIMED_OUT", "TIER_SSD", "TIER_HDD", "CONTENT_IMAGES", "CONTENT_BYTES",
                     "RANDOM_RESIZED_CROP", "RESIZE_CENTER_CROP", "RESIZE", "PAD_CROP", "DRAW_BY_POSITION",
                     "DRAW_AS_TORCH", "PART_IMAGES", "PART_LABELS", "PART_INDICES", "TRIVIAL_AUGMENT_WIDE",
                     "RAND_AUGMENT"):
            self.assertEqual(getattr(_abi, name), numbers[name], name)
        for prefix, table in (("BAD_", _abi.BAD_SAMPLES), ("DAMAGE_", _abi.DAMAGE), ("", _abi.DTYPES),
                              ("SAMPLE_", {name: number for number, name in enumerate(_abi.STATES)})):
            for name, number in table.items():
                self.assertEqual(number, numbers[prefix + name.upper()], name)
        self.assertEqual(sorted(_abi._EXCEPTIONS), list(range(3, numbers["INTERNAL"])))


if __name__ == "__main__":
    support.main()
