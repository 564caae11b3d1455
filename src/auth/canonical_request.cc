#include "auth/canonical_request.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/text.h"

namespace verbena::auth {
namespace {

bool blank(char c) { return c == ' ' || c == '\t'; }

// Without blanks at the ends, runs of blanks inside as one space. AWS says spaces; its SDKs treat tabs alike.
void append_collapsed(std::string& out, std::string_view value) {
  bool pending = false;
  bool any = false;
  for (char c : value) {
    if (blank(c)) {
      pending = any;
      continue;
    }
    if (pending) out += ' ';
    pending = false;
    any = true;
    out += c;
  }
}

// A '+' is a space here, as it is for whoever acts upon the query: else one signature would stand for two requests.
std::optional<std::string> decode_argument(std::string_view text) {
  if (text.find('+') == std::string_view::npos) return uri_decode(text);
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return uri_decode(spaced);
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::vector<QueryArgument>> parse_query(std::string_view query) {
  std::vector<QueryArgument> out;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view piece = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (piece.empty()) continue;
    const size_t equals = std::min(piece.find('='), piece.size());
    auto name = decode_argument(piece.substr(0, equals));
    auto value = decode_argument(piece.substr(std::min(equals + 1, piece.size())));
    if (!name || !value) return std::nullopt;
    out.push_back({std::move(*name), std::move(*value)});
  }
  return out;
}

std::string canonical_query(std::span<const QueryArgument> arguments, std::string_view leave_out) {
  std::vector<std::pair<std::string, std::string>> encoded;
  encoded.reserve(arguments.size());
  for (const auto& argument : arguments) {
    if (!leave_out.empty() && argument.name == leave_out) continue;
    encoded.emplace_back(uri_encode(argument.name, false), uri_encode(argument.value, false));
  }
  std::sort(encoded.begin(), encoded.end());
  std::string out;
  for (const auto& [name, value] : encoded) {
    if (!out.empty()) out += '&';
    out += name;
    out += '=';
    out += value;
  }
  return out;
}

std::optional<std::string> canonical_path(std::string_view raw_path) {
  auto decoded = uri_decode(raw_path);
  if (!decoded) return std::nullopt;
  if (decoded->empty()) return "/";
  return uri_encode(*decoded, true);
}

bool append_canonical_header(std::string& out, std::string_view name, std::span<const HeaderView> headers) {
  bool found = false;
  for (const auto& header : headers) {
    if (!equal_ignoring_case(header.name, name)) continue;
    if (found) {
      out += ',';
    } else {
      out += name;
      out += ':';
    }
    append_collapsed(out, header.value);
    found = true;
  }
  if (found) out += '\n';
  return found;
}

std::string join_names(std::span<const std::string> names) {
  std::string out;
  for (const auto& name : names) {
    if (!out.empty()) out += ';';
    out += name;
  }
  return out;
}

std::string canonical_request_hash(std::string_view method, std::string_view path, std::string_view query,
                                   std::string_view header_lines, std::string_view signed_names,
                                   std::string_view payload_hash) {
  std::string text;
  text.reserve(method.size() + path.size() + query.size() + header_lines.size() + signed_names.size() +
               payload_hash.size() + 8);
  for (std::string_view part : {method, path, query, header_lines, signed_names}) {
    text += part;
    text += '\n';
  }
  text += payload_hash;
  return to_hex(as_bytes(sha256(as_bytes(text))));
}

std::string string_to_sign(std::string_view amz_date, std::string_view scope, std::string_view request_hash) {
  std::string text;
  text.reserve(algorithm_name.size() + amz_date.size() + scope.size() + request_hash.size() + 4);
  for (std::string_view part : {algorithm_name, amz_date, scope}) {
    text += part;
    text += '\n';
  }
  text += request_hash;
  return text;
}

std::string signature_of(const std::array<std::byte, 32>& key, std::string_view text) {
  return to_hex(as_bytes(hmac_sha256(key, as_bytes(text))));
}

std::string scope_of(std::string_view date, std::string_view region, std::string_view service) {
  std::string out;
  for (std::string_view part : {date, region, service}) {
    out += part;
    out += '/';
  }
  out += "aws4_request";
  return out;
}

}  // namespace verbena::auth
