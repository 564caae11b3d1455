// The configuration as a file to edit, from the same table as the reference in docs/configuration.md.
#pragma once

#include <string>

namespace verbena {

// A YAML file with every key as a comment, with help and default (`verbena config`, /etc/verbena/verbena.yaml). A key's
// line begins with '#' alone, a remark with '#' and one space: removing the former '#' gives the default configuration.
std::string config_template();

}  // namespace verbena
