// Room plugin: code that is loaded at run time, checked before it can do anything. A plugin offers objects of three
// kinds (scheme, calibrator, comm) by name. This header: the part of a plugin that is plain C and never depends on a
// compiler or a standard library. A plugin carries a record in an ELF note, which is read from the file before dlopen,
// so that no constructor of a foreign build runs. Past the checks (detail/check.hpp) a plugin and Kvant speak ordinary
// C++: virtual interfaces and exceptions.
//
// Layout of the note: section `.note.kvant.plugin`, owner "KVANT", type KVANT_PLUGIN_NOTE_TYPE, descriptor
// KvantPluginRecord. `size`, `abi`, `name` and `version` keep their places in every ABI, so that a refusal can name a
// plugin of any other one.
#pragma once

#include <stdint.h>

/// Moves whenever an interface that a plugin implements or calls changes its layout or meaning.
#define KVANT_PLUGIN_ABI 3
#define KVANT_PLUGIN_NOTE_TYPE 1
#define KVANT_PLUGIN_NOTE_OWNER "KVANT"

extern "C" {

/// All texts end with a zero byte and are filled up with zeros. Integers are little-endian.
struct KvantPluginRecord {
  uint32_t size;          ///< bytes of this record
  uint32_t abi;           ///< KVANT_PLUGIN_ABI of the headers that it was built with
  char name[48];          ///< [a-z0-9_]+; the file is libkvant_<name>.so
  char version[24];       ///< the author's
  uint32_t kinds;         ///< bit (1 << Kind) for every kind that is offered
  char provides[252];     ///< what is offered: "scheme:e3m4 calibrator:mse"
  char source_hash[68];   ///< SHA-256 of the plugin's sources in hexadecimal: ranks compare it
  char fingerprint[320];  ///< "key=value;…" of the build (fingerprint.hpp)
};

/// An ELF note that holds the record (all parts are multiples of 4 bytes).
struct KvantPluginNote {
  uint32_t owner_size;   ///< 6, with the zero byte
  uint32_t record_size;  ///< sizeof(KvantPluginRecord)
  uint32_t type;         ///< KVANT_PLUGIN_NOTE_TYPE
  char owner[8];
  struct KvantPluginRecord record;
};

/// `kvant_plugin_query`: repeats the record, now from the loaded code.
typedef const struct KvantPluginRecord* (*KvantPluginQuery)(void);
/// `kvant_plugin_register`: offers the objects; `host` is a kvant::plugin::Host.
typedef void (*KvantPluginRegister)(void* host);
/// `kvant_plugin_close`: destroys the plugin's static objects; called once, when Kokkos is about to shut down.
typedef void (*KvantPluginClose)(void);

}  // extern "C"
