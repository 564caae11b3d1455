# verbena_room(NAME DEPS targets... FOLDERS folders...): the folder that calls it, and the named folders in it, become the static
# library verbena_NAME. Its test_*.cc files become verbena_NAME_test_support, its *_test.cc files one GoogleTest program,
# verbena_NAME_test, registered with CTest test by test.
include(GoogleTest)

# The programs of the rooms' own tests and of the matrix. Not part of `all`: a build of the program alone does not need
# them, nor does a run of everything, where these tests run under sanitizers.
add_custom_target(verbena_tests)

# Headers used by most files, compiled once: without them a file of thirty lines costs five seconds. One set serves all
# rooms, one all their tests.
function(verbena_precompiled name header)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cc CONTENT "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE verbena_heavy ${ARGN})
  target_precompile_headers(${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/${header})
endfunction()

add_library(verbena_heavy INTERFACE)
target_link_libraries(verbena_heavy INTERFACE verbena_flags fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json Threads::Threads)
if(VERBENA_PCH)
  verbena_precompiled(verbena_pch precompiled.h)
  verbena_precompiled(verbena_test_pch precompiled_tests.h GTest::gmock)
  # Compiled as for the programs that use it, not as for a library.
  set_target_properties(verbena_test_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(verbena_test_pch PRIVATE ${VERBENA_TEST_OPTIONS} -fPIE)
endif()

# Most of a file's compile time is spent on templates that its neighbours instantiate, too: so several files are
# compiled as one. Names in unnamed namespaces are therefore unique in a room, and in its tests.
function(verbena_unity target)
  if(VERBENA_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${VERBENA_UNITY})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # A false warning for every lambda in a coroutine of an included file.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

# verbena_register_tests(PROGRAM PREFIX LABEL LIMIT [SANITIZED]): registers a GoogleTest program with CTest, test by test;
# under sanitizers, where starting a program takes longer than most tests, suite by suite, and if SANITIZED is given those
# alone that this filter of GoogleTest's lets through.
function(verbena_register_tests program prefix label limit)
  if(NOT VERBENA_SANITIZE)
    gtest_discover_tests(${program} TEST_PREFIX "${prefix}." DISCOVERY_TIMEOUT 300 PROPERTIES TIMEOUT ${limit} LABELS ${label})
    return()
  endif()
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${program}_suites.cmake)
  set(filter "")
  if(ARGC GREATER 4)
    set(filter -D "FILTER=${ARGV4}")
  endif()
  add_custom_command(TARGET ${program} POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${program}> -D PREFIX=${prefix} -D LABEL=${label} -D LIMIT=600 ${filter} -D OUT=${suites}
            -P ${PROJECT_SOURCE_DIR}/cmake/suites.cmake)
  # The tests of a program that was not built fail.
  set(registered ${CMAKE_CURRENT_BINARY_DIR}/${program}_registered.cmake)
  file(WRITE ${registered} "if(EXISTS [==[${suites}]==])\n  include([==[${suites}]==])\nelse()\n"
    "  add_test(${prefix}.NOT_BUILT ${program}_NOT_BUILT)\n  set_tests_properties(${prefix}.NOT_BUILT PROPERTIES LABELS ${label})\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${registered})
endfunction()

function(verbena_room name)
  cmake_parse_arguments(ROOM "" "" "DEPS;TEST_DEPS;FOLDERS" ${ARGN})
  set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(folder ${ROOM_FOLDERS})
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(tests ${sources})
  set(support ${sources})
  list(FILTER support INCLUDE REGEX "/test_[^/]*\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test\\.cc|/test_[^/]*\\.cc)$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(verbena_${name} STATIC ${sources})
    target_link_libraries(verbena_${name} PUBLIC verbena_flags ${ROOM_DEPS})
    verbena_unity(verbena_${name})
    if(VERBENA_PCH)
      target_link_libraries(verbena_${name} PRIVATE verbena_heavy)
      target_precompile_headers(verbena_${name} REUSE_FROM verbena_pch)
    endif()
  else()
    add_library(verbena_${name} INTERFACE)  # headers only
    target_link_libraries(verbena_${name} INTERFACE verbena_flags ${ROOM_DEPS})
  endif()
  # Support for tests and fuzzers: not part of any installed program.
  if(support)
    add_library(verbena_${name}_test_support STATIC EXCLUDE_FROM_ALL ${support})
    target_link_libraries(verbena_${name}_test_support PUBLIC verbena_${name})
    list(APPEND ROOM_TEST_DEPS verbena_${name}_test_support)
  endif()
  if(tests)
    add_executable(verbena_${name}_test EXCLUDE_FROM_ALL ${tests})
    target_link_libraries(verbena_${name}_test PRIVATE verbena_${name} ${ROOM_TEST_DEPS} GTest::gmock GTest::gtest_main)
    target_compile_options(verbena_${name}_test PRIVATE ${VERBENA_TEST_OPTIONS})
    verbena_unity(verbena_${name}_test)
    add_dependencies(verbena_tests verbena_${name}_test)
    if(VERBENA_PCH)
      target_link_libraries(verbena_${name}_test PRIVATE verbena_heavy)
      target_precompile_headers(verbena_${name}_test REUSE_FROM verbena_test_pch)
    endif()
    verbena_register_tests(verbena_${name}_test ${name} unit 120)
  endif()
endfunction()
