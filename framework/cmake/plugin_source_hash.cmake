# Writes OUTPUT, a header with the SHA-256 of SOURCES (files separated by |): what the ranks of a job compare of a plugin.
string(REPLACE "|" ";" SOURCES "${SOURCES}")
set(all "")
foreach(source IN LISTS SOURCES)
  file(SHA256 "${source}" hash)
  string(APPEND all "${hash}\n")
endforeach()
string(SHA256 hash "${all}")
file(WRITE "${OUTPUT}" "#pragma once\n#define KVANT_PLUGIN_SOURCE_HASH \"${hash}\"\n")
