# kvant_add_test(<executable> PREFIX <name> SOURCES <file>... [LABELS <label>...])
#
# One executable of Catch2 tests, one CTest entry per source file (<prefix>/<stem>), run with one OpenMP thread; a file
# with "threads" in its name gets two. Kokkos and MPI are initialised by tests/support/main.cpp.
function(kvant_add_test executable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PREFIX" "SOURCES;LABELS")
  add_executable(${executable} ${arg_SOURCES})
  target_link_libraries(${executable} PRIVATE kvant kvant_test_main)
  target_include_directories(${executable} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${executable} PRIVATE KVANT_SOURCE_DIR="${PROJECT_SOURCE_DIR}" KVANT_BUILD_DIR="${PROJECT_BINARY_DIR}")
  target_compile_options(${executable} PRIVATE ${KVANT_WARNINGS})
  set_target_properties(${executable} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(stem "${source}" NAME_WE)
    set(threads 1)
    if(stem MATCHES "threads")
      set(threads 2)
    endif()
    add_test(NAME ${arg_PREFIX}/${stem} COMMAND ${executable} -\# "[#${stem}]" WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    set_tests_properties(${arg_PREFIX}/${stem} PROPERTIES
      ENVIRONMENT "OMP_NUM_THREADS=${threads};OMP_PROC_BIND=false;${KVANT_TEST_ENVIRONMENT}" PROCESSORS ${threads} TIMEOUT 900 LABELS "${arg_LABELS}")
  endforeach()
endfunction()
