# Chooses the compiler when nobody did: the default one of Debian 12 is too old for the packaged Kokkos.
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(KVANT_DEFAULT_CXX NAMES g++-14 g++-15 g++-13)
  if(KVANT_DEFAULT_CXX)
    set(CMAKE_CXX_COMPILER "${KVANT_DEFAULT_CXX}" CACHE FILEPATH "C++ compiler")
  endif()
endif()
