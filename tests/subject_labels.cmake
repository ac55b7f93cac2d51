# SPDX-License-Identifier: Apache-2.0
# Subjects that lie across the layers: each test about one has its name as a second label, so that
# `tests/run --label s3` runs them wherever they lie. This is all that knows which tests these are.
#
# Read by cmake for the tests that are programs of their own, and by ctest once the test cases of a layer are known.

set(subjects cluster s3 records)

# What the names of such tests have in them.
set(names_of_cluster
  ": ?(shared (tier|value)|placement on peers|(own )?peers?|share|memcached|a host list)[ :']|nodes share|who share|its nodes")
set(names_of_s3 "bucket|botocore|compare s3-")
set(names_of_records "[ :]packs?[ ,]|(reader|sequence) of records|records (is|that are) re|compare records-|records of ")
# The sources all of whose test cases are about one, whatever their names.
set(files_of_cluster "")
set(files_of_s3 cache/object/*_test.cpp)
set(files_of_records cache/record_formats_test.cpp cache/record_hdf5_test.cpp cache/record_map_test.cpp
  cache/record_set_test.cpp fuse/pack_records_test.cpp fuse/read_evidence_test.cpp fuse/record_*_test.cpp
  fuse/records_test.cpp)
# No subject is about these.
set(layers_with_subjects cache cli fuse)

# The names of the test cases in a source, as a list.
function(cases_of_file file result)
  file(READ ${file} text)
  string(REPLACE ";" "," text "${text}")  # it would end an element of a list
  string(REGEX MATCHALL "TEST_CASE\\([ \n]*\"[^\"\n]*\"" found "${text}")
  list(TRANSFORM found REPLACE "TEST_CASE\\([ \n]*\"([^\"]*)\"" "\\1")
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# The test cases in the sources of a subject, with a line end before and behind each.
function(cases_of_subject subject result)
  set(cases "\n")
  foreach(pattern IN LISTS files_of_${subject})
    file(GLOB files ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${pattern})
    foreach(file IN LISTS files)
      cases_of_file(${file} found)
      list(TRANSFORM found APPEND "\n")
      string(APPEND cases ${found})
    endforeach()
  endforeach()
  set(${result} "${cases}" PARENT_SCOPE)
endfunction()

# label_test(TEST LABEL): the test has this label, and those of the subjects that it is about.
function(label_test test label)
  set(labels ${label})
  string(REGEX REPLACE "^([a-z]+ )?${label}( without io_uring)?: ?" "" case "${test}")
  foreach(subject IN LISTS subjects)
    string(FIND "${cases_of_${subject}}" "\n${case}\n" place)
    if(place GREATER_EQUAL 0 OR test MATCHES "${names_of_${subject}}")
      list(APPEND labels ${subject})
    endif()
  endforeach()
  set_tests_properties("${test}" PROPERTIES LABELS "${labels}")
endfunction()

# label_test_of_file(TEST LABEL FILE): the same for a test that runs all cases of a source: it is about what they are about.
function(label_test_of_file test label file)
  set(labels ${label})
  cases_of_file(${file} cases)
  list(TRANSFORM cases PREPEND "${label}: ")
  foreach(subject IN LISTS subjects)
    set(files_of_this ${files_of_${subject}})
    list(TRANSFORM files_of_this PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
    if(files_of_this)
      file(GLOB files_of_this ${files_of_this})
    endif()
    if(file IN_LIST files_of_this OR cases MATCHES "${names_of_${subject}}")
      list(APPEND labels ${subject})
    endif()
  endforeach()
  set_tests_properties("${test}" PROPERTIES LABELS "${labels}")
endfunction()

foreach(layer IN LISTS layers_with_subjects)
  if(${layer}_tests_TESTS)
    foreach(subject IN LISTS subjects)
      cases_of_subject(${subject} cases_of_${subject})
    endforeach()
  endif()
  foreach(test IN LISTS ${layer}_tests_TESTS)
    label_test("${test}" ${layer})
  endforeach()
endforeach()
