# Build options, sanitizers and warnings.
option(VERBENA_FUZZ "Build the libFuzzer targets (clang)" OFF)
option(VERBENA_FUZZ_COMPARES "The fuzzers see what is compared with what, too: they guess magic values, and the build takes a fifth longer" OFF)
set(VERBENA_CRASH_ROUNDS 60 CACHE STRING "Rounds of kill -9 in the test run; tests/crash/kill_test.py --rounds 200 by hand")
option(VERBENA_COVERAGE "Count which lines run (clang): `./dev fuzz --coverage`" OFF)
option(VERBENA_PCH "Precompile the headers that most files read (cmake/precompiled.h)" ON)
set(VERBENA_UNITY 0 CACHE STRING "How many files of a room are compiled as one (./dev: 6 or 12); 0: each by itself")
set(VERBENA_TEST_OPTIONS "-O0;-g1" CACHE STRING "How test programs are compiled: they are built more often than they run")
set(VERBENA_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A new clone in another folder reuses the objects of the last one; ccache needs these settings for precompiled
  # headers.
  set(launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

add_library(verbena_flags INTERFACE)
target_compile_options(verbena_flags INTERFACE -Wall -Wextra -Wpedantic -Wnon-virtual-dtor
  -Woverloaded-virtual -Wimplicit-fallthrough -Werror=return-type)
target_include_directories(verbena_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(verbena_flags INTERFACE VERBENA_VERSION="${PROJECT_VERSION}"
  BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_DATE_TIME)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives of GCC 12 and 13 in coroutine frames and std::expected.
  target_compile_options(verbena_flags INTERFACE -Wshadow=local -Wno-maybe-uninitialized -Wno-mismatched-new-delete)
  # GCC spends an eighth of its time on garbage collection of a heap that fits into memory many times.
  target_compile_options(verbena_flags INTERFACE --param=ggc-min-expand=1000 --param=ggc-min-heapsize=1048576)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    # GCC clears and copies objects larger than a few registers by `rep stos` and `rep movs`: tens of cycles to begin,
    # and a read of a part at once waits until it is written, behind every store before it. In a batch's answers, which
    # are made between copies of objects, that was a sixth of the time.
    target_compile_options(verbena_flags INTERFACE -mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign
      -mmemcpy-strategy=vector_loop:512:noalign,libcall:-1:noalign)
  endif()
endif()
if(VERBENA_SANITIZE)
  target_compile_options(verbena_flags INTERFACE -fsanitize=${VERBENA_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(verbena_flags INTERFACE -fsanitize=${VERBENA_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_link_options(verbena_flags INTERFACE -fuse-ld=lld)
    if(VERBENA_SANITIZE MATCHES "address")
      # Each function would be compiled in two forms, for a check that is off when the tests run: it does not support
      # coroutines.
      target_compile_options(verbena_flags INTERFACE -fsanitize-address-use-after-return=never)
      # A null pointer dereference ends the program anyway; checking each one costs a seventh of the build.
      target_compile_options(verbena_flags INTERFACE -fno-sanitize=null)
    endif()
  endif()
endif()
if(VERBENA_FUZZ)
  if(VERBENA_FUZZ_COMPARES)
    set(VERBENA_SEEN_BY_FUZZERS -fsanitize=fuzzer-no-link)
  else()
    set(VERBENA_SEEN_BY_FUZZERS -fsanitize-coverage=inline-8bit-counters,pc-table)
  endif()
  # Of libraries and of the fuzzers themselves (fuzz/CMakeLists.txt). Other programs are tests, which take a seventh
  # less time to compile without.
  set(of_a_library "$<NOT:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>>")
  target_compile_options(verbena_flags INTERFACE "$<${of_a_library}:${VERBENA_SEEN_BY_FUZZERS}>")
  target_link_options(verbena_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(VERBENA_COVERAGE)
  target_compile_options(verbena_flags INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(verbena_flags INTERFACE -fprofile-instr-generate)
endif()
