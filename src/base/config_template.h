// The configuration as a file to edit, from the same table as the reference in docs/configuration.md.
#pragma once

#include <string>

namespace verbena {

// A YAML file with every key as a comment: what it does and its default (`verbena config`, /etc/verbena/verbena.yaml).
// A key's line begins with '#' alone, a remark with '#' and one space: what is left when the former lose it is the
// default configuration.
std::string config_template();

}  // namespace verbena
