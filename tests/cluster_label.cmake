# SPDX-License-Identifier: Apache-2.0
# Read by ctest after the test cases of a layer are known: gives those about the nodes that share a second label, so
# that `tests/run --label cluster` runs them wherever they lie.
foreach(layer cache cli)
  foreach(test IN LISTS ${layer}_tests_TESTS)
    if(test MATCHES ": ?(shared (tier|value)|placement on peers|(own )?peers?|share|memcached|a host list)[ :']")
      set_tests_properties("${test}" PROPERTIES LABELS "${layer};cluster")
    endif()
  endforeach()
endforeach()
