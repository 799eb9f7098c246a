# kvant_add_plugin(<name> KIND scheme|calibrator|comm SOURCES <file>... [VERSION <text>])
#
# Builds libkvant_<name>.so into plugins/ of the build tree (Kvant's own build tree is searched by the program, another goes
# into KVANT_PLUGIN_PATH) and installs it to lib/kvant/plugins. Compiler flags and Kokkos are those of libkvant; visibility
# stays default (hidden visibility would give the plugin a copy of Kokkos' inline state). The sources see
#   KVANT_PLUGIN_NAME, KVANT_PLUGIN_KIND, KVANT_PLUGIN_VERSION   what is written here, as strings (version: the project's)
#   kvant_plugin_source_hash.hpp   KVANT_PLUGIN_SOURCE_HASH, the SHA-256 of the sources at build time
# and plugin/plugin.hpp makes the plugin's record of them.
set(KVANT_PLUGIN_HASH_SCRIPT "${CMAKE_CURRENT_LIST_DIR}/plugin_source_hash.cmake")

function(kvant_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "KIND;VERSION" "SOURCES")
  set(kinds scheme calibrator comm)
  if(NOT arg_KIND IN_LIST kinds)
    message(FATAL_ERROR "kvant_add_plugin(${name}): KIND is '${arg_KIND}', but must be one of scheme, calibrator, comm.")
  endif()
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "kvant_add_plugin(${name}): a plugin's name is made of a-z, 0-9 and _, and starts with a letter.")
  endif()
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kvant_add_plugin(${name}): give KIND, SOURCES, VERSION and nothing else (unknown: '${arg_UNPARSED_ARGUMENTS}').")
  endif()
  if(NOT arg_VERSION)
    set(arg_VERSION "${PROJECT_VERSION}")
  endif()
  if(NOT arg_VERSION)
    message(FATAL_ERROR "kvant_add_plugin(${name}): give VERSION, or a VERSION to project().")
  endif()
  set(target kvant_${name})
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/${target}_source")
  set(hashed "")
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(source "${source}" ABSOLUTE)
    list(APPEND hashed "${source}")
  endforeach()
  list(JOIN hashed "|" joined)  # a semicolon would split the argument
  add_custom_command(OUTPUT "${generated}/kvant_plugin_source_hash.hpp"
    COMMAND ${CMAKE_COMMAND} "-DSOURCES=${joined}" "-DOUTPUT=${generated}/kvant_plugin_source_hash.hpp" -P "${KVANT_PLUGIN_HASH_SCRIPT}"
    DEPENDS ${hashed} "${KVANT_PLUGIN_HASH_SCRIPT}" COMMENT "Hashing the sources of ${target}" VERBATIM)
  add_library(${target} MODULE ${arg_SOURCES} "${generated}/kvant_plugin_source_hash.hpp")
  target_link_libraries(${target} PRIVATE Kvant::kvant)
  target_include_directories(${target} PRIVATE "${generated}")
  target_compile_definitions(${target} PRIVATE KVANT_PLUGIN_NAME="${name}" KVANT_PLUGIN_KIND="${arg_KIND}"
    KVANT_PLUGIN_VERSION="${arg_VERSION}")
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unknown-pragmas)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET default
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/plugins" INSTALL_RPATH "$ORIGIN/../..")
  include(GNUInstallDirs)
  install(TARGETS ${target} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/kvant/plugins")
endfunction()
