# Micro-kernels for instructions above the baseline: framework/kernels/isa/*_<isa>.cpp are compiled with the flags of their
# suffix and chosen at run time. Such a file includes neither Kokkos nor standard headers (no precompiled header either):
# an inline function compiled here for a newer processor could be the copy that the linker picks for everybody
# (tests/hygiene/isa_objects.sh looks).
set(KVANT_ISA_FLAGS_avx2 -march=x86-64-v3)
set(KVANT_ISA_FLAGS_avxvnni -march=x86-64-v3 -mavxvnni)
set(KVANT_ISA_FLAGS_avx512 -march=x86-64-v4)
set(KVANT_ISA_FLAGS_avx512vnni -march=x86-64-v4 -mavx512vnni)
set(KVANT_ISA_FLAGS_avx512fp16 -march=x86-64-v4 -mavx512fp16)

# kvant_isa_sources(<variable>): takes ISA files out of the list where the processor family is another, else sets their flags.
function(kvant_isa_sources variable)
  set(kept "")
  foreach(source IN LISTS ${variable})
    if(source MATCHES "/kernels/isa/[^/]*_(avx2|avxvnni|avx512|avx512vnni|avx512fp16)\\.cpp$")
      set(flags "${KVANT_ISA_FLAGS_${CMAKE_MATCH_1}}")
      if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        continue()
      endif()
      set_source_files_properties("${source}" PROPERTIES
        COMPILE_OPTIONS "${flags}" SKIP_PRECOMPILE_HEADERS ON)
    endif()
    list(APPEND kept "${source}")
  endforeach()
  set(${variable} "${kept}" PARENT_SCOPE)
endfunction()
