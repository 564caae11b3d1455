// A request head as this server parses it, and as Boost.Beast's own request parser does. Where the two may differ is a
// rule below, with its reason; any other difference ends the fuzzer.
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "http/head_parser.h"

namespace {

using namespace verbena::http;
namespace beast = boost::beast::http;

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

// Optional white space of a field's value: SP and HTAB (RFC 9110 section 5.6.3).
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

using Fields = std::map<std::string, std::vector<std::string>>;  // in each name's order: Beast keeps a name's together

struct Seen {
  bool accepted = false;
  std::string method, target, path, query, authority;
  Fields fields;
  size_t field_count = 0;
  bool http_1_0 = false, keep_alive = false, chunked = false, expect_continue = false;
  std::optional<uint64_t> content_length;
};

const std::string* only(const Fields& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() || found->second.size() != 1 ? nullptr : &found->second.front();
}
size_t count_of(const Fields& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? 0 : found->second.size();
}

Seen by_beast(std::string_view text) {
  beast::request_parser<beast::empty_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(text.size() + 1));
  parser.body_limit(boost::none);
  boost::beast::error_code ec;
  parser.put(boost::asio::buffer(text.data(), text.size()), ec);
  Seen seen;
  if ((ec && ec != beast::error::need_more && ec != beast::error::unexpected_body) || !parser.is_header_done()) {
    return seen;
  }
  seen.accepted = true;
  const auto& message = parser.get();
  seen.method = std::string(message.method_string());
  seen.target = std::string(message.target());
  seen.http_1_0 = message.version() < 11;
  seen.keep_alive = parser.keep_alive();
  seen.chunked = parser.chunked();
  if (!seen.chunked && parser.content_length()) seen.content_length = *parser.content_length();
  for (const auto& field : message) {
    const auto value = trimmed({field.value().data(), field.value().size()});
    seen.fields[lower_case({field.name_string().data(), field.name_string().size()})].emplace_back(value);
    ++seen.field_count;
  }
  const std::string* expect = only(seen.fields, "expect");
  seen.expect_continue = !seen.http_1_0 && expect != nullptr && lower_case(*expect) == "100-continue";
  return seen;
}

// "/path?query", or "http://authority/path?query", as Beast leaves it to its user. False: neither.
bool split_by_the_book(Seen& seen) {
  std::string rest = seen.target;
  if (rest.empty() || rest.find('#') != std::string::npos) return false;
  if (rest[0] != '/') {
    const std::string low = lower_case(rest);
    const size_t scheme = low.starts_with("http://") ? 7 : low.starts_with("https://") ? 8 : 0;
    if (scheme == 0) return false;
    size_t end = scheme;
    while (end < rest.size() && rest[end] != '/' && rest[end] != '?') ++end;
    seen.authority = rest.substr(scheme, end - scheme);
    if (seen.authority.empty() || seen.authority.find('@') != std::string::npos) return false;
    rest = rest.substr(end);
    if (rest.empty() || rest[0] != '/') rest = "/" + rest;
  }
  const size_t question = rest.find('?');
  seen.path = rest.substr(0, question);
  if (question != std::string::npos) seen.query = rest.substr(question + 1);
  return true;
}

// Fields whose repetition is refused here, written out: see the rule below.
bool repeats_a_single_value(const Fields& fields) {
  static const std::set<std::string> single = {
      "authorization",     "content-disposition", "content-md5", "content-type",        "date",   "expires", "if-match",
      "if-modified-since", "if-none-match",       "if-range",    "if-unmodified-since", "origin", "range",   "referer"};
  for (const auto& [name, values] : fields) {
    if (values.size() < 2) continue;
    if (single.contains(name)) return true;
    const bool list = name.starts_with("x-amz-meta-") || name == "x-amz-object-attributes" ||
                      name == "x-amz-optional-object-attributes";
    if (name.starts_with("x-amz-") && !list) return true;
  }
  return false;
}

// Whether a head that Beast accepts is refused here, and why that is right.
const char* refusal(Seen& seen) {
  if (seen.method.empty() || seen.method.size() > 32) return "methods have a bound: nothing of S3 has a longer one";
  if (seen.target.size() > target_size_max) return "a target's length has a bound of its own (414)";
  if (!split_by_the_book(seen)) return "forms of targets that no client of an origin server sends (RFC 9112, 3.2)";
  if (seen.field_count > header_count_max) return "the number of fields has a bound (431)";
  const size_t hosts = count_of(seen.fields, "host"), lengths = count_of(seen.fields, "content-length");
  const size_t encodings = count_of(seen.fields, "transfer-encoding");
  if (hosts > 1) return "two hosts: two recipients would serve two buckets (RFC 9112, 3.2)";
  if (hosts == 0 && !seen.http_1_0) return "HTTP/1.1 demands a host (RFC 9112, 3.2)";
  if (lengths > 1) return "equal lengths, repeated, are refused, too: a proxy may have read one of them";
  if (encodings > 1) return "codings in several fields: only chunked by itself is served";
  if (encodings == 1 && lower_case(*only(seen.fields, "transfer-encoding")) != "chunked") return "other codings (501)";
  if (encodings == 1 && lengths == 1) return "a length and chunks: what request smuggling is made of (RFC 9112, 6.1)";
  if (encodings == 1 && seen.http_1_0) return "HTTP/1.0 has no chunks (RFC 9112, 6.1)";
  if (lengths == 1) {
    for (const char c : *only(seen.fields, "content-length")) {
      if (c < '0' || c > '9') return "a length has digits only; a list of equal ones is refused";
    }
    if (only(seen.fields, "content-length")->empty()) return "an empty length is none";
  }
  if (repeats_a_single_value(seen.fields)) return "a signature covers joined values, the server uses one";
  return nullptr;
}

[[noreturn]] void differs(const char* what) {
  std::fprintf(stderr, "the parsers differ: %s\n", what);
  std::abort();
}

void expect_equal(const RequestHead& ours, const Seen& theirs) {
  if (ours.method != theirs.method) differs("method");
  if (ours.path != theirs.path || ours.query != theirs.query) differs("target");
  if (ours.http_1_0 != theirs.http_1_0) differs("version");
  if (ours.keep_alive != theirs.keep_alive) differs("keep-alive");
  if (ours.chunked != theirs.chunked) differs("chunked");
  if (ours.expect_continue != theirs.expect_continue) {
    // Several expectations are several fields here, and one list in Beast's eyes: each is looked at.
    if (count_of(theirs.fields, "expect") < 2) differs("expect");
  }
  Fields fields;
  for (const auto& [name, value] : ours.headers) fields[name].push_back(value);
  Fields expected = theirs.fields;
  // The authority of an absolute target replaces the Host (RFC 9112, 3.2.2).
  if (!theirs.authority.empty() && expected.contains("host")) expected["host"] = {theirs.authority};
  if (fields != expected) differs("fields");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  HeadScanner scanner;
  const auto status = scanner.scan(text);
  // Beast gets the head alone: what follows is a body, whose framing is not compared here.
  if (status == HeadScanner::Status::complete) {
    const std::string_view whole = text.substr(0, scanner.size());
    static RequestHead head;
    const int refused = parse_head(whole, head);
    Seen theirs = by_beast(whole);
    if (!theirs.accepted) {
      if (refused == 0) differs("accepted here alone");
      return 0;
    }
    const char* const reason = refusal(theirs);
    if (reason != nullptr && refused == 0) differs(reason);
    if (reason == nullptr && refused != 0) differs("refused here alone, without a reason");
    if (refused == 0) {
      if (head.content_length != theirs.content_length) differs("length");
      expect_equal(head, theirs);
    }
    return 0;
  }
  // A head without an end has none for Beast either; one with line ends that recipients disagree on is refused here
  // (a bare LF, a continued line: RFC 9112, 2.2 and 5.2), whatever Beast makes of it.
  if (status == HeadScanner::Status::more && by_beast(text).accepted) differs("Beast sees an end");
  return 0;
}
