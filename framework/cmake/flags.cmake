# Compile flags of everything that is built here, and of plugins (target kvant_flags, part of the SDK).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")  # lines are enough for a report; more doubles the objects

add_library(kvant_flags INTERFACE)
# Results must not move: no -ffast-math, and no contraction of a*b+c that the compiler chooses loop by loop (an inlined and
# a separate copy of one function would differ in the last bit). Neither of the other two changes a result.
target_compile_options(kvant_flags INTERFACE -ffp-contract=off -fno-math-errno)
target_compile_definitions(kvant_flags INTERFACE KVANT_MPI="${KVANT_MPI}")  # for the fingerprint (plugin/fingerprint.hpp)
if(KVANT_FPE)
  target_compile_definitions(kvant_flags INTERFACE KVANT_FPE=1)
else()
  target_compile_options(kvant_flags INTERFACE -fno-trapping-math)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND KVANT_BASELINE)
  target_compile_options(kvant_flags INTERFACE -march=${KVANT_BASELINE})
endif()
if(KVANT_BOUNDS_CHECK)
  target_compile_definitions(kvant_flags INTERFACE KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK _GLIBCXX_ASSERTIONS)
endif()
if(KVANT_SANITIZE)
  target_compile_options(kvant_flags INTERFACE -fsanitize=${KVANT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(kvant_flags INTERFACE -fsanitize=${KVANT_SANITIZE})
endif()
set(KVANT_WARNINGS -Wall -Wextra -Wno-unknown-pragmas)

find_program(KVANT_CCACHE ccache)
if(KVANT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT KVANT_DEVICE_BUILD)
  # pch_defines and time_macros: without them ccache declines every file that uses the precompiled header
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${KVANT_CCACHE})
endif()
