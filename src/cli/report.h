// Error messages of commands: one line that names the subject, then a hint what to do.
#pragma once

#include <string>
#include <string_view>

#include "cli/exit_code.h"
#include "verbena/client.h"

namespace verbena::cli {

// "verbena: s3://b/k: no such key" and a hint, if there is one. Returns the error's exit code.
ExitCode report(std::string_view subject, const ClientError& error);
// `problem` is printed as it is.
ExitCode report(std::string_view subject, std::string_view problem, ExitCode code);
// A hint for an error; empty for none.
std::string hint_for(const ClientError& error);
// Whether the next object of a run would fail likewise: the server is gone, or takes none of these credentials. Then
// the run ends; after any other failure it goes on with the next one.
bool next_fails_likewise(const ClientError& error);
// With --verbose, on standard error: "s3://b/k: 12 MiB by native (local), 2 attempts".
void tell_transfer(std::string_view subject, const Transfer& transfer);

}  // namespace verbena::cli
