// Registry: the objects of a kind by name. An interface says its kind in two lines,
//   using PluginInterface = Scheme;
//   static constexpr plugin::Kind plugin_kind = plugin::Kind::scheme;
// and everything that derives from it can be offered by a plugin (plugin.hpp) or by Kvant itself (add_builtin).
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kvant::plugin {

enum class Kind : uint8_t { scheme, calibrator, comm };
inline constexpr int kind_count = 3;
constexpr const char* name_of(Kind kind) {
  return kind == Kind::scheme ? "scheme" : kind == Kind::calibrator ? "calibrator" : "comm";
}

/// An interface of which plugins offer implementations. The objects are deleted through it.
template <class T>
concept Interface = std::has_virtual_destructor_v<T> && std::same_as<typename T::PluginInterface, T> &&
                    std::same_as<std::remove_cv_t<decltype(T::plugin_kind)>, Kind>;

/// One offer: a constant, so that the note of a plugin can be written at compile time.
struct Registration {
  Kind kind;
  const char* name;        ///< what a configuration says to get the object
  void* (*make)();         ///< new object as a pointer to its interface
  void (*destroy)(void*);  ///< deletes what make() gave
};

/// Offers T under a name. T has a default constructor; what it needs to know it is told through its interface.
template <class T>
constexpr Registration provide(const char* name) {
  static_assert(requires { typename T::PluginInterface; }, "T must derive from Scheme, Calibrator or CommStrategy.");
  using I = typename T::PluginInterface;
  static_assert(std::is_base_of_v<I, T>, "T must derive publicly from its interface.");
  static_assert(!std::is_abstract_v<T>, "T must define every pure method of its interface.");
  static_assert(std::is_default_constructible_v<T>, "T must have a default constructor.");
  return {I::plugin_kind, name, [] { return static_cast<void*>(static_cast<I*>(new T())); },
          [](void* object) { delete static_cast<I*>(object); }};
}

/// Receives the offers of a plugin while it registers.
class Host {
 public:
  virtual void add(const Registration& offer) = 0;

 protected:
  ~Host() = default;
};

/// Where an offer comes from.
struct Origin {
  std::string plugin;  ///< name of the plugin; empty: built into Kvant
  std::string file;
  std::string text() const;  ///< "plugin 'int8_full' (/path/libkvant_int8_full.so)" or "Kvant itself"
};

namespace detail {

/// The registry of one kind, without its type: lives in libkvant, once in the process.
class Entries {
 public:
  static Entries& of(Kind kind);

  void add(const Registration& offer, const Origin& origin);  ///< refuses a name that is taken, naming both origins
  bool contains(std::string_view name) const;
  std::vector<std::string> names() const;
  const Origin& origin(std::string_view name) const;
  void* create(std::string_view name);
  void* get(std::string_view name);
  void clear();

 private:
  struct Entry {
    Registration offer;
    std::string name;
    Origin origin;
    void* object = nullptr;
  };
  explicit Entries(Kind kind) : kind_(kind) {}
  Entry& find(std::string_view name) const;  ///< refuses an unknown name

  Kind kind_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<Entry*> made_;  ///< in the order of creation
};

}  // namespace detail

/// The names and objects of the kind whose interface is T. Used from the main thread only.
template <Interface T>
class Registry {
 public:
  static bool contains(std::string_view name) { return entries().contains(name); }
  static std::vector<std::string> names() { return entries().names(); }
  static const Origin& origin(std::string_view name) { return entries().origin(name); }

  /// The one object of this name that everybody shares: made at the first call, dead after clear_registries().
  /// Refuses an unknown name with the nearest valid one; an exception of the plugin becomes a sentence that names it.
  static T& get(std::string_view name) { return *static_cast<T*>(entries().get(name)); }

  /// An object of the caller's own, who destroys it before Kokkos shuts down.
  static std::unique_ptr<T> create(std::string_view name) {
    return std::unique_ptr<T>(static_cast<T*>(entries().create(name)));
  }

  /// Offers an implementation that is part of Kvant.
  template <class Implementation>
  static void add_builtin(const char* name) {
    static_assert(std::same_as<typename Implementation::PluginInterface, T>);
    entries().add(provide<Implementation>(name), {});
  }

 private:
  static detail::Entries& entries() { return detail::Entries::of(T::plugin_kind); }
};

/// Destroys all objects (the last one made first) and forgets all names. Part of the shut-down order (loader.hpp).
void clear_registries();

}  // namespace kvant::plugin
