# `cmake --install`: the program, libkvant, the plugins and the SDK (headers, KvantConfig.cmake with kvant_add_plugin).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
