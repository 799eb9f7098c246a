// The program: reads the command line, runs one command, turns whatever is thrown into one sentence and an exit code.
#include "app/commands.hpp"
#include "base/build.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "config/suggest.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

namespace {

using kvant::ExitCode;
using kvant::app::Context;

/// The last line of everything that the program prints, and of the log of the run that ends with it.
int end_with(const std::string& sentence, ExitCode code) {
  try {
    kvant::log::write_to_file(sentence, kvant::log::Level::error);
  } catch (const std::exception&) {
    // A full disk, say: the console has the sentence below.
  }
  std::fflush(stdout);
  std::fprintf(stderr, "kvant: %s\n", sentence.c_str());
  return static_cast<int>(code);
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

/// "there is no command 'trian'; did you mean 'train'?", or "" if the first word is a command. Asked before parsing,
/// since CLI11 would answer `kvant trian --help` with the help of the program.
std::string unknown_command(const CLI::App& app, const Context& context) {
  if (context.arguments.empty() || context.arguments.front().starts_with("-")) return {};
  const std::string& word = context.arguments.front();
  for (const std::string& name : names_of(app))
    if (name == word) return {};
  const std::string meant = kvant::config::nearest(word, names_of(app));
  const std::string advice =
      meant.empty() ? "valid are " + kvant::config::listed(names_of(app)) : "did you mean '" + meant + "'?";
  return "there is no command '" + word + "'; " + advice;
}

/// CLI11's words for what is wrong, in ours where its are about the inside of the program.
std::string sentence_of(const CLI::ParseError& error, const CLI::App& app, const Context& context) {
  std::string text = error.what();
  const CLI::App* at = &app;
  std::string called = "kvant";
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    called += " " + at->get_name();
  }
  if (const auto begin = text.find("--config is required"); begin != std::string::npos) return called + " needs CONFIG, a TOML file";
  if (text != "A subcommand is required") return text;
  const std::string& word = context.arguments.back();
  const std::string meant = word == at->get_name() ? "" : kvant::config::nearest(word, names_of(*at));
  return called + " needs one of " + kvant::config::listed(names_of(*at)) + (meant.empty() ? "" : "; did you mean '" + meant + "'?");
}

/// Parses; returns true if there is a command to run, else sets the exit code.
bool parse(CLI::App& app, Context& context, int& exit_code) {
  const std::string unknown = unknown_command(app, context);
  if (!unknown.empty()) {
    exit_code = end_with(unknown, ExitCode::usage);
    return false;
  }
  try {
    std::vector<std::string> reversed(context.arguments.rbegin(), context.arguments.rend());
    app.parse(reversed);
    if (context.run) return true;
    std::fputs(app.help().c_str(), stderr);
    exit_code = static_cast<int>(ExitCode::usage);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0)  // --help and --version
      exit_code = app.exit(error);
    else
      exit_code = end_with(sentence_of(error, app, context) + " (--help says what there is)", ExitCode::usage);
  }
  return false;
}

/// What the program printed must have arrived; a pipe that was closed or a full disk is an error like any other.
int check_output(int exit_code) {
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed) return exit_code;
  const int reason = errno;
  std::clearerr(stdout);
  const int code = end_with(fmt::format("standard output could not be written{}; what the program has put into files is complete.",
                                        reason == 0 ? "" : std::string(": ") + std::strerror(reason)), ExitCode::failure);
  return exit_code == 0 ? code : exit_code;
}

int run(const Context& context) {
  try {
    return check_output(context.run());
  } catch (const kvant::Error& error) {
    return end_with(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return end_with("there is not enough memory.", ExitCode::failure);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return check_output(static_cast<int>(ExitCode::failure));
    return end_with(std::string("something went wrong that has no sentence of its own: ") + error.what(),
                    ExitCode::failure);
  } catch (...) {
    return end_with("something was thrown that is no exception of the standard library; a plugin's code is the likely source.", ExitCode::failure);
  }
}

}  // namespace

int main(int argc, char** argv) {
  // UCX, below MPI, takes SIGHUP for its own messages as soon as it is loaded.
  const auto hang_up = std::signal(SIGHUP, SIG_DFL);
  if (hang_up == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is reported by the call that writes to it
  Context context;
  context.arguments.assign(argv + 1, argv + argc);
  CLI::App app("Trains Mixture-of-Experts transformers in quantized arithmetic.", "kvant");
  app.set_version_flag("--version", "kvant " KVANT_VERSION);
  app.require_subcommand(0, 1);
  kvant::app::add_examples(app, {"kvant train configs/quickstart.toml", "kvant train --help"});
  kvant::app::add_commands(app, context);
  int exit_code = 0;
  return parse(app, context, exit_code) ? run(context) : check_output(exit_code);
}
