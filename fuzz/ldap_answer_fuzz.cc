// A directory's answers, from the first byte on: a bind, a search for an entry, and one for groups. An answer that is
// none is an error, and no more entries are returned than were asked for.
#include <cstdlib>

#include "sign_in/ldap_session.h"
#include "support/answering_server.h"

namespace {

using namespace verbena;
using namespace verbena::sign_in;

const LdapLibrary* library() {
  static const LdapLibrary* const loaded = [] {
    const auto found = load_ldap_library();
    return found ? *found : nullptr;
  }();
  return loaded;
}

void expect(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (library() == nullptr) return 0;  // not installed here
  static fuzz::AnsweringServer& server = *new fuzz::AnsweringServer;
  static const std::atomic<bool> stop = false;
  server.answer_with({reinterpret_cast<const char*>(data), size});
  auto stream = LdapStream::connect("127.0.0.1", server.port(), deadline_in(std::chrono::seconds(5)), stop);
  expect(stream.has_value());
  const auto session = LdapSession::open(*library(), std::move(*stream));
  expect(session.has_value());
  const auto in = (*session)->bind("uid=ann,o=x", "secret");
  if (!in || !*in) return 0;
  LdapSession::Search search{.base = "o=x", .filter = "(uid=ann)", .attribute = "uid"};
  const auto entry = (*session)->search(search);
  if (!entry) return 0;
  expect(entry->size() <= 1);
  search = {.base = "ou=groups,o=x", .filter = "(member=uid=ann)", .attribute = "", .entries_max = 3, .all_here = true};
  const auto groups = (*session)->search(search);
  if (groups) expect(groups->size() <= 3);
  return 0;
}
