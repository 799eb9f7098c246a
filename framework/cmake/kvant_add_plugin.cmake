# kvant_add_plugin(<name> KIND scheme|calibrator|comm SOURCES <file>...)
#
# Builds libkvant_<name>.so, in this project's build tree into build/<preset>/plugins, where the program finds it; elsewhere
# into plugins/ of the build tree (KVANT_PLUGIN_PATH). The compiler flags are those of libkvant, visibility stays default
# (hidden visibility would give the plugin a copy of Kokkos' inline state).
function(kvant_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "KIND" "SOURCES")
  set(kinds scheme calibrator comm)
  if(NOT arg_KIND IN_LIST kinds)
    message(FATAL_ERROR "kvant_add_plugin(${name}): KIND is '${arg_KIND}', but must be one of scheme, calibrator, comm.")
  endif()
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kvant_add_plugin(${name}): give SOURCES and nothing else (unknown: '${arg_UNPARSED_ARGUMENTS}').")
  endif()
  add_library(kvant_${name} MODULE ${arg_SOURCES})
  target_link_libraries(kvant_${name} PRIVATE Kvant::kvant)
  target_compile_features(kvant_${name} PRIVATE cxx_std_20)
  target_compile_definitions(kvant_${name} PRIVATE KVANT_PLUGIN_NAME="${name}" KVANT_PLUGIN_KIND="${arg_KIND}")
  target_compile_options(kvant_${name} PRIVATE ${KVANT_WARNINGS})
  set_target_properties(kvant_${name} PROPERTIES
    CXX_STANDARD 20 CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/plugins")
endfunction()
