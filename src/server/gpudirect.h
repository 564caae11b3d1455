// gpudirect.*: what the server finds of GPUs at its start. A machine without one starts as any other.
#pragma once

#include <chrono>
#include <string>

#include "base/config.h"

namespace verbena::server {

// The text for the log; empty: gpudirect.enabled is false, and no driver is loaded. A driver that does not answer
// within `at_most` is left alone. Sets verbena_gpudirect_devices.
std::string find_gpus(const Config::Gpudirect& gpudirect, std::chrono::milliseconds at_most = std::chrono::seconds(20));

}  // namespace verbena::server
