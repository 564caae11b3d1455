# verbena_room(NAME DEPS targets...): the folder that calls it becomes the static library verbena_NAME. Its *_test.cc
# files become one GoogleTest program, verbena_NAME_test, registered with CTest test by test.
include(GoogleTest)

function(verbena_room name)
  cmake_parse_arguments(ROOM "" "" "DEPS;TEST_DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(verbena_${name} STATIC ${sources})
    target_link_libraries(verbena_${name} PUBLIC verbena_flags ${ROOM_DEPS})
  else()
    add_library(verbena_${name} INTERFACE)  # headers only
    target_link_libraries(verbena_${name} INTERFACE verbena_flags ${ROOM_DEPS})
  endif()
  if(tests AND NOT VERBENA_FUZZ)
    add_executable(verbena_${name}_test ${tests})
    target_link_libraries(verbena_${name}_test PRIVATE verbena_${name} ${ROOM_TEST_DEPS} GTest::gmock GTest::gtest_main)
    gtest_discover_tests(verbena_${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT 120 LABELS unit)
  endif()
endfunction()
