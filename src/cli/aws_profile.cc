#include "cli/aws_profile.h"

#include <cstdlib>
#include <fstream>

namespace verbena::cli {
namespace {

constexpr size_t file_bytes_max = 1 << 20;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const size_t first = text.find_first_not_of(blank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::string first_of(const std::function<std::string(const char*)>& environment,
                     std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return {};
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  std::string text(file_bytes_max, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

void take(std::string& into, const IniSection& section, const char* name) {
  if (!into.empty()) return;
  if (auto found = section.find(name); found != section.end()) into = found->second;
}

}  // namespace

Ini parse_ini(std::string_view text) {
  Ini out;
  IniSection* section = nullptr;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    const std::string_view line = trimmed(raw);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const size_t close = line.find(']');
      section = nullptr;
      if (close == line.npos) continue;
      std::string_view name = trimmed(line.substr(1, close - 1));
      if (name.starts_with("profile ")) name = trimmed(name.substr(8));
      section = &out[std::string(name)];
      continue;
    }
    const bool indented = raw[0] == ' ' || raw[0] == '\t';
    const size_t equals = line.find('=');
    if (section == nullptr || indented || equals == line.npos) continue;
    (*section)[std::string(trimmed(line.substr(0, equals)))] = trimmed(line.substr(equals + 1));
  }
  return out;
}

AwsSettings aws_settings(const std::string& profile, const std::function<std::string(const char*)>& environment,
                         const std::function<std::string(const std::string&)>& read_file) {
  AwsSettings out;
  // As in AWS's tools: a profile named on the command line outranks keys in the environment.
  if (profile.empty()) {
    out.access_key = environment("AWS_ACCESS_KEY_ID");
    out.secret_key = environment("AWS_SECRET_ACCESS_KEY");
    out.session_token = environment("AWS_SESSION_TOKEN");
  }
  out.region = first_of(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  out.endpoint = first_of(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});

  std::string name = profile.empty() ? environment("AWS_PROFILE") : profile;
  if (name.empty()) name = "default";
  const std::string home = environment("HOME") + "/.aws/";
  std::string credentials_file = environment("AWS_SHARED_CREDENTIALS_FILE");
  std::string config_file = environment("AWS_CONFIG_FILE");
  if (credentials_file.empty()) credentials_file = home + "credentials";
  if (config_file.empty()) config_file = home + "config";
  for (const std::string& path : {credentials_file, config_file}) {
    const Ini ini = parse_ini(read_file(path));
    const auto section = ini.find(name);
    if (section == ini.end()) continue;
    // Keys come as a pair from one place, never one half each from two.
    if (out.access_key.empty() && out.secret_key.empty()) {
      take(out.access_key, section->second, "aws_access_key_id");
      take(out.secret_key, section->second, "aws_secret_access_key");
      take(out.session_token, section->second, "aws_session_token");
    }
    take(out.region, section->second, "region");
    take(out.endpoint, section->second, "endpoint_url");
  }
  return out;
}

AwsSettings aws_settings(const std::string& profile) {
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  return aws_settings(profile, environment, file_text);
}

}  // namespace verbena::cli
