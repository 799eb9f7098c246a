# `cmake --install`: the program, libkvant, the plugins and the SDK (headers, KvantConfig.cmake with kvant_add_plugin).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# A Kokkos from the private prefix goes along, so that the install stands without the checkout.
set(KVANT_INSTALLED_KOKKOS "")
set(kvant_rpath "$ORIGIN")  # of libkvant; the program's is the same seen from bin/
set(program_rpath "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
if(Kokkos_DIR MATCHES "^${KVANT_PRIVATE_PREFIX}/")
  set(KVANT_INSTALLED_KOKKOS "${CMAKE_INSTALL_LIBDIR}/kvant/kokkos")
  install(DIRECTORY "${KVANT_PRIVATE_PREFIX}/" DESTINATION "${KVANT_INSTALLED_KOKKOS}" PATTERN "share" EXCLUDE PATTERN "trilinos" EXCLUDE)
  file(RELATIVE_PATH kvant_kokkos_library "${KVANT_PRIVATE_PREFIX}" "${Kokkos_DIR}/../..")
  list(APPEND kvant_rpath "$ORIGIN/kvant/kokkos/${kvant_kokkos_library}")
  list(APPEND program_rpath "$ORIGIN/../${KVANT_INSTALLED_KOKKOS}/${kvant_kokkos_library}")
endif()
set_target_properties(kvant PROPERTIES INSTALL_RPATH "${kvant_rpath}" INSTALL_RPATH_USE_LINK_PATH ON)
if(TARGET kvant_program)
  set_target_properties(kvant_program PROPERTIES INSTALL_RPATH "${program_rpath}" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS kvant_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

install(TARGETS kvant kvant_flags EXPORT KvantTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT KvantTargets NAMESPACE Kvant:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Kvant")
install(DIRECTORY framework/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/kvant" FILES_MATCHING PATTERN "*.hpp"
  PATTERN "app" EXCLUDE PATTERN "cmake" EXCLUDE)
install(FILES "${PROJECT_BINARY_DIR}/include/base/build.hpp" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/kvant/base")

string(REGEX MATCH "^[0-9]+" KVANT_COMPILER "${CMAKE_CXX_COMPILER_VERSION}")
string(PREPEND KVANT_COMPILER "${CMAKE_CXX_COMPILER_ID} ")
configure_package_config_file(framework/cmake/KvantConfig.cmake.in "${PROJECT_BINARY_DIR}/KvantConfig.cmake"
  INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Kvant" PATH_VARS CMAKE_INSTALL_PREFIX)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/KvantConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/KvantConfig.cmake" "${PROJECT_BINARY_DIR}/KvantConfigVersion.cmake"
  framework/cmake/kvant_add_plugin.cmake framework/cmake/plugin_source_hash.cmake DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Kvant")
