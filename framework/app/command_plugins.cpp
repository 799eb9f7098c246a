// kvant plugins [FILE…]: what can be loaded, and why the rest cannot. Reads files only: no plugin's code runs, neither
// MPI nor Kokkos starts. kvant plugins new KIND NAME: the files of a new one.
#include "app/command.hpp"
#include "app/plugin_skeleton.hpp"
#include "base/error.hpp"
#include "plugin/loader.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace kvant::app {
namespace {

struct Arguments {
  std::vector<std::string> files;
  bool json = false;
};

nlohmann::ordered_json as_json(const plugin::Info& info) {
  nlohmann::ordered_json offers = nlohmann::ordered_json::array();
  for (const std::string& offer : info.provides) {
    const std::size_t colon = offer.find(':');
    offers.push_back({{"kind", offer.substr(0, colon)}, {"name", offer.substr(colon + 1)}});
  }
  nlohmann::ordered_json object;
  object["name"] = info.name;
  object["version"] = info.version;
  object["offers"] = offers;
  object["file"] = info.file.string();
  object["source_hash"] = info.source_hash;
  object["fingerprint"] = info.fingerprint;
  object["refused"] = info.refused.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(info.refused);
  return object;
}

void print_json(const std::vector<plugin::Info>& infos) {
  nlohmann::ordered_json all;
  all["fingerprint"] = plugin::own_fingerprint();
  all["looked_in"] = nlohmann::ordered_json::array();
  for (const auto& folder : plugin::search_path()) all["looked_in"].push_back(folder.string());
  all["plugins"] = nlohmann::ordered_json::array();
  for (const plugin::Info& info : infos) all["plugins"].push_back(as_json(info));
  fmt::print("{}\n",
             all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));  // file names may be no UTF-8
}

/// "scheme int8_full, calibrator mse"
std::string offers_of(const plugin::Info& info) {
  std::string text;
  for (std::string offer : info.provides) {
    std::replace(offer.begin(), offer.end(), ':', ' ');
    text += (text.empty() ? "" : ", ") + offer;
  }
  return text.empty() ? "-" : text;
}

void print_text(const std::vector<plugin::Info>& infos, bool searched) {
  const std::string own = plugin::own_fingerprint();
  std::size_t width = 4, version_width = 7;
  for (const plugin::Info& info : infos) {
    width = std::max(width, info.name.size());
    version_width = std::max(version_width, info.version.size());
  }
  if (!infos.empty()) fmt::print("{:<{}}  {:<{}}  offers\n", "name", width, "version", version_width);
  for (const plugin::Info& info : infos) {
    fmt::print("{:<{}}  {:<{}}  {}\n", info.name.empty() ? "?" : info.name, width,
               info.version.empty() ? "?" : info.version, version_width, offers_of(info));
    fmt::print("    file         {}\n", info.file.string());
    if (!info.source_hash.empty()) fmt::print("    sources      {}\n", info.source_hash);
    if (!info.fingerprint.empty())
      fmt::print("    fingerprint  {}\n", info.fingerprint == own ? "that of this program" : info.fingerprint);
    if (!info.refused.empty()) fmt::print("    REFUSED      {}\n", info.refused);
  }
  fmt::print("{}This program's fingerprint: {}\n", infos.empty() ? "" : "\n", own);
  if (!searched) return;
  fmt::print("{} looked in, in this order (KVANT_PLUGIN_PATH goes first):\n",
             infos.empty() ? "No plugin was found;" : "Folders");
  for (const auto& folder : plugin::search_path())
    fmt::print("    {}{}\n", folder.string(), std::filesystem::is_directory(folder) ? "" : "  (no such folder)");
}

/// With files: exit code 0 only if each of them would be loaded. Without: the list itself is the success.
int run(const Arguments& arguments) {
  std::vector<plugin::Info> infos;
  for (const std::string& file : arguments.files) infos.push_back(plugin::inspect(file));
  if (arguments.files.empty()) infos = plugin::available();
  if (arguments.json)
    print_json(infos);
  else
    print_text(infos, arguments.files.empty());
  const bool refused =
      std::any_of(infos.begin(), infos.end(), [](const plugin::Info& info) { return !info.refused.empty(); });
  return static_cast<int>(refused && !arguments.files.empty() ? ExitCode::failure : ExitCode::success);
}

struct NewArguments {
  std::string kind, name, folder = ".";
};

int run_new(const NewArguments& arguments) {
  const plugin::Kind kind = arguments.kind == "scheme" ? plugin::Kind::scheme : plugin::Kind::calibrator;
  std::vector<std::string> taken;
  for (const plugin::Info& info : plugin::available()) {
    taken.push_back(info.name);
    for (const std::string& offer : info.provides) taken.push_back(offer.substr(offer.find(':') + 1));
  }
  for (const auto& file : write_plugin_skeleton(kind, arguments.name, arguments.folder, taken)) fmt::print("{}\n", file.string());
  fmt::print("\nNext, in {}/{}: README.md says how to build and test it.\n", arguments.folder, arguments.name);
  return static_cast<int>(ExitCode::success);
}

void add_new(CLI::App& plugins, Context& context) {
  CLI::App* command = plugins.add_subcommand("new", "write the files of a new plugin: it builds, is loaded and has tests");
  auto arguments = std::make_shared<NewArguments>();
  command->add_option("KIND", arguments->kind, "scheme or calibrator")->required()->check(CLI::IsMember({"scheme", "calibrator"}));
  command->add_option("NAME", arguments->name, "its name: a-z, 0-9 and _, what a configuration calls it by")->required();
  refuse_empty(command->add_option("--into", arguments->folder, "where the folder NAME is made")->capture_default_str(), "a folder");
  add_examples(*command, {"kvant plugins new scheme my_scheme", "kvant plugins new calibrator my_range --into $HOME/plugins"});
  command->callback([arguments, &context] { context.run = [arguments] { return run_new(*arguments); }; });
}

}  // namespace

void add_plugins(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("plugins", "list the plugins that are found, and why some are refused; new: write one");
  auto arguments = std::make_shared<Arguments>();
  refuse_empty(command->add_option("FILE", arguments->files,
                                   "plugin files to look at instead; the exit code is 0 if all of them would be loaded"),
               "a plugin's file");
  command->add_flag(
      "--json", arguments->json,
      "print JSON: fingerprint, looked_in, plugins (name, version, offers, file, source_hash, fingerprint, refused)");
  add_examples(*command, {"kvant plugins", "kvant plugins --json", "kvant plugins build/libkvant_e3m4.so",
                          "KVANT_PLUGIN_PATH=$HOME/plugins kvant plugins"});
  add_new(*command, context);
  command->callback([arguments, command, &context] {
    if (command->get_subcommands().empty()) context.run = [arguments] { return run(*arguments); };
  });
}

}  // namespace kvant::app
