#include "auth/canonical_request.h"

#include <algorithm>
#include <initializer_list>

#include "auth/query_limit.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/hex.h"
#include "base/text.h"

namespace verbena::auth {
namespace {

bool blank(char c) { return c == ' ' || c == '\t'; }

// Trims blanks and collapses runs of them to one space. AWS says spaces; its SDKs treat tabs alike.
void append_collapsed(std::string& out, std::string_view value) {
  value = trim(value);
  if (value.find('\t') == std::string_view::npos && value.find("  ") == std::string_view::npos) {
    out += value;
    return;
  }
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

// A '+' means a space, as for the code that processes the query: else one signature would cover two requests.
std::optional<std::string> decode_argument(std::string_view text) {
  if (text.find('+') == std::string_view::npos) return uri_decode(text);
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return uri_decode(spaced);
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) { return lower(x) == lower(y); };
  return a.size() == b.size() && (a == b || std::equal(a.begin(), a.end(), b.begin(), same));
}

Result<std::vector<QueryArgument>> parse_query(std::string_view query) {
  std::vector<QueryArgument> out;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view piece = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (piece.empty()) continue;
    if (out.size() == query_arguments_max) return fail(Errc::invalid_request, "Too many query parameters.");
    const auto equals = static_cast<size_t>(std::ranges::find(piece, '=') - piece.begin());
    auto name = decode_argument(piece.substr(0, equals));
    auto value = decode_argument(piece.substr(std::min(equals + 1, piece.size())));
    if (!name || !value) return fail(Errc::invalid_uri, "The query has a broken percent sequence.");
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

Result<void> check_one_reading(std::span<const QueryArgument> arguments) {
  if (arguments.size() < 2) return {};
  std::vector<std::string> names;
  names.reserve(arguments.size());
  for (const auto& argument : arguments) {
    if (argument.name == "tagKeys") continue;
    // Arguments that replace a header are matched without regard to case, as headers are.
    const bool header = equal_ignoring_case(std::string_view(argument.name).substr(0, 6), "x-amz-");
    names.push_back(header ? lower(argument.name) : argument.name);
  }
  std::ranges::sort(names);
  if (std::ranges::adjacent_find(names) == names.end()) return {};
  return fail(Errc::access_denied, "A parameter of a signed query is repeated.");
}

bool is_canonical_path(std::string_view raw_path) {
  return !raw_path.empty() && std::ranges::all_of(raw_path, [](char c) { return c == '/' || unreserved(c); });
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

namespace {

Signature hex_of(const Sha256& raw) {
  Signature text;
  write_hex(raw, text.data());
  return text;
}

// A buffer for the hashed text: some hundred bytes, many times a second.
std::string& scratch() {
  constexpr size_t keep_max = 64 * KiB;
  thread_local std::string text;
  if (text.capacity() > keep_max) text = std::string();
  text.clear();
  return text;
}

void append_lines(std::string& out, std::initializer_list<std::string_view> lines) {
  for (const std::string_view line : lines) {
    out += line;
    out += '\n';
  }
}

}  // namespace

Signature signature_of(const HmacSha256& key, std::string_view text) { return hex_of(key.sign(as_bytes(text))); }

Signature signature_of(const HmacSha256& key, const CanonicalRequest& request, std::string_view amz_date,
                       std::string_view scope) {
  std::string& text = scratch();
  append_lines(text, {request.method, request.path, request.query, request.header_lines, request.signed_names});
  text += request.payload_hash;
  const Sha256 hash = sha256_of(as_bytes(text));
  text.clear();
  append_lines(text, {algorithm_name, amz_date, scope});
  text += text_of(hex_of(hash));
  return hex_of(key.sign(as_bytes(text)));
}

void append_scope(std::string& out, std::string_view date, std::string_view region, std::string_view service) {
  for (std::string_view part : {date, region, service}) {
    out += part;
    out += '/';
  }
  out += "aws4_request";
}

std::string scope_of(std::string_view date, std::string_view region, std::string_view service) {
  std::string out;
  append_scope(out, date, region, service);
  return out;
}

}  // namespace verbena::auth
