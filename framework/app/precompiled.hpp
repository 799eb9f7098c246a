// What nearly every file of the program includes and what takes longest to read: compiled once.
#pragma once

#include "base/kokkos.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
