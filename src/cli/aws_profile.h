// Keys and region from the places of AWS's tools: environment variables, then ~/.aws/credentials and ~/.aws/config.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace verbena::cli {

using IniSection = std::map<std::string, std::string>;
using Ini = std::map<std::string, IniSection>;

// AWS's INI dialect: "[name]" or "[profile name]" sections, "key = value", '#' and ';' comments, indented lines belong
// to the setting before and are skipped. Never fails: unknown lines are ignored. Bounded by the input.
Ini parse_ini(std::string_view text);

struct AwsSettings {
  std::string access_key, secret_key, session_token, region, endpoint;
};

// `environment` returns "" for unset variables, `read_file` "" for files that cannot be read. `profile`: --profile, or
// empty for AWS_PROFILE, or "default".
AwsSettings aws_settings(const std::string& profile, const std::function<std::string(const char*)>& environment,
                         const std::function<std::string(const std::string&)>& read_file);
// With the process's own environment and files.
AwsSettings aws_settings(const std::string& profile);

}  // namespace verbena::cli
