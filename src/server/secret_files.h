// Secrets from files, as provided by containers and systemd (VERBENA_ROOT_SECRET_KEY_FILE=/run/secrets/key).
#pragma once

#include <expected>
#include <string>

namespace verbena::server {

// Sets VERBENA_ROOT_ACCESS_KEY and VERBENA_ROOT_SECRET_KEY from the files named by the variables with _FILE, without
// the line break that editors and `echo` leave at the end; other variables are unchanged. Before the first thread
// starts. The error is a sentence for operators without secrets: a file that cannot be read or is no secret, both forms
// at once, or a value that ends in a line break.
std::expected<void, std::string> take_secret_files();

}  // namespace verbena::server
