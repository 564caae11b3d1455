#include "auth/identity_store.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "auth/identifiers.h"
#include "auth/identity_file.h"

namespace verbena::auth {
namespace {

constexpr int64_t now = 1'767'323'045;
constexpr const char* allow_list =
    R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:ListBucket","Resource":"*"}]})";

PolicyDocument document(std::string text, PolicyKind kind = PolicyKind::identity) {
  PolicyDocument out{std::move(text), nullptr};
  auto parsed = parse_policy(out.text, kind);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().context);
  if (parsed) out.policy = *parsed;
  return out;
}

std::string trust_of(const std::string& principal) {
  return R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"AWS":")" +
         principal + R"("}}]})";
}

class IdentityStoreTest : public testing::Test {
 protected:
  IdentityStoreTest() {
    char pattern[] = "/tmp/verbena-identity-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    open();
  }
  ~IdentityStoreTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file() const { return folder_ / "identities.json"; }
  static std::expected<std::unique_ptr<IdentityStore>, std::string> open_with(const std::filesystem::path& path,
                                                                              const KeyRing& keys,
                                                                              const Credentials& root) {
    return IdentityStore::open(path, keys, root);
  }
  void open() {
    store_.reset();
    auto opened = open_with(file(), *keys_, root_);
    ASSERT_TRUE(opened) << opened.error();
    store_ = std::move(*opened);
  }
  std::string text() const {
    std::ifstream in(file(), std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  void write(const std::string& content) const { std::ofstream(file(), std::ios::binary) << content; }

  Result<void> add_account(const std::string& name, const std::string& canonical_id, const std::string& access_key,
                           const std::string& email = "") {
    AccountEntry entry;
    entry.name = name;
    entry.account = std::make_shared<const Account>(Account{make_account_id(), canonical_id, name, email});
    entry.keys.push_back(store_->make_key(access_key, "secret of " + access_key, now));
    return store_->change([&](AccountMap& accounts) -> Result<void> {
      accounts.emplace(entry.account->id, std::make_shared<const AccountEntry>(entry));
      return {};
    });
  }
  std::string id_of(const std::string& name) { return store_->account_named(name)->account->id; }
  Result<void> change(const std::string& name, const std::function<void(AccountEntry&)>& edit) {
    return store_->change_account(id_of(name), [&](AccountEntry& entry) -> Result<void> {
      edit(entry);
      return {};
    });
  }
  void add_user(const std::string& account, const std::string& name, const std::string& access_key) {
    ASSERT_TRUE(change(account, [&](AccountEntry& entry) {
      User user;
      user.name = name;
      user.id = make_id("AIDA");
      user.keys.push_back(store_->make_key(access_key, "user's secret", now));
      user.policy_set.inline_policies.emplace("own", document(allow_list));
      entry.users.emplace(name, user);
    }));
  }
  void add_role(const std::string& account, const std::string& name) {
    ASSERT_TRUE(change(account, [&](AccountEntry& entry) {
      Role role;
      role.name = name;
      role.id = make_id("AROA");
      role.trust = document(trust_of("*"), PolicyKind::trust);
      role.policy_set.attached.insert("arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess");
      entry.roles.insert_or_assign(name, role);
    }));
  }
  SessionContents role_contents(const std::string& account, const std::string& role) {
    SessionContents contents;
    contents.kind = Principal::Kind::assumed_role;
    contents.account_id = id_of(account);
    contents.subject = role;
    contents.subject_id = store_->account_named(account)->roles.find(role)->second.id;
    contents.session_name = "job";
    contents.expires_s = now + 900;
    return contents;
  }
  // A session made by the user or root with the key `access_key`.
  Credentials session(SessionContents& contents, const std::string& access_key = "AKALICE") {
    const auto by = store_->find(access_key, "", now);
    EXPECT_TRUE(by);
    return store_->make_session(contents, by ? **by : AccessKey{}, now);
  }
  Errc error_of(const Credentials& credentials, int64_t when = now) {
    const auto found = store_->find(credentials.access_key, credentials.session_token, when);
    return found ? Errc::ok : found.error().code;
  }

  std::filesystem::path folder_;
  std::unique_ptr<KeyRing> keys_ = KeyRing::in_memory();
  Credentials root_{"ROOTKEY", "the root's secret", ""};
  std::unique_ptr<IdentityStore> store_;
};

TEST_F(IdentityStoreTest, TheFileGrowsNoLargerThanTheNextStartReads) {
  ASSERT_TRUE(add_account("alice", "alice", "AKALICE"));
  const uint64_t size = std::filesystem::file_size(file());
  const auto reopen = [&](uint64_t bytes_max) { return IdentityStore::open(file(), *keys_, root_, bytes_max); };
  EXPECT_FALSE(reopen(size - 1));
  auto opened = reopen(size);
  ASSERT_TRUE(opened) << opened.error();
  store_ = std::move(*opened);
  const std::string before = text();
  EXPECT_EQ(add_account("bob", "bob", "AKBOB").error().code, Errc::limit_exceeded);
  EXPECT_EQ(text(), before);
  EXPECT_EQ(store_->account_named("bob"), nullptr);
  EXPECT_TRUE(reopen(size));
}

TEST_F(IdentityStoreTest, OneAccountFillsNoFileThatOthersAreKeptIn) {
  ASSERT_TRUE(add_account("alice", "alice", "AKALICE"));
  ASSERT_TRUE(add_account("bob", "bob", "AKBOB"));
  const auto reopen = [&](uint64_t account_max) {
    store_.reset();
    auto opened = IdentityStore::open(file(), *keys_, root_, identity_file_bytes_max, account_max);
    ASSERT_TRUE(opened) << opened.error();
    store_ = std::move(*opened);
  };
  reopen(4096);
  const auto add = [&](const std::string& account, const std::string& name) {
    return change(account, [&](AccountEntry& entry) {
      User user;
      user.name = name;
      for (int i = 0; i < 4; ++i) user.tags.emplace("tag" + std::to_string(i), std::string(200, 'x'));
      entry.users.emplace(name, user);
    });
  };
  size_t made = 0;
  Result<void> last;
  for (; made < 10 && last; ++made) last = add("alice", "u" + std::to_string(made));
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, Errc::limit_exceeded);
  EXPECT_GT(made, 2u);
  EXPECT_EQ(store_->account_named("alice")->users.size(), made - 1);
  EXPECT_TRUE(add("bob", "first"));

  // Above a limit that was lowered: what is there works, may be changed and removed, but does not grow.
  reopen(1024);
  EXPECT_EQ(add("alice", "more").error().code, Errc::limit_exceeded);
  EXPECT_TRUE(change("alice", [](AccountEntry& entry) { entry.keys[0].active = false; }));
  // An operator can restrict it.
  EXPECT_TRUE(change("alice", [](AccountEntry& entry) { entry.keys[0].access_key = "a longer one"; }));
  EXPECT_TRUE(change("alice", [](AccountEntry& entry) { entry.users.erase("u0"); }));
  EXPECT_EQ(store_->account_named("alice")->users.size(), made - 2);
}

TEST_F(IdentityStoreTest, AChangeOfOneAccountEncodesThatOneAlone) {
  ASSERT_TRUE(add_account("alice", "alice", "AKALICE"));
  ASSERT_TRUE(add_account("bob", "bob", "AKBOB"));
  AccountMap accounts = *store_->accounts();
  AccountTexts texts;
  ASSERT_TRUE(texts.encode(accounts, accounts, account_bytes_max));
  EXPECT_EQ(texts.encoded(), 3u);  // and the root's
  const AccountMap before = accounts;
  auto alice = std::make_shared<AccountEntry>(*accounts.at(id_of("alice")));
  alice->keys[0].active = false;
  accounts.at(id_of("alice")) = std::move(alice);
  const auto text = texts.encode(accounts, before, account_bytes_max);
  ASSERT_TRUE(text);
  EXPECT_EQ(texts.encoded(), 4u);
  EXPECT_EQ(*text, encode_accounts(accounts));
  accounts.erase(id_of("bob"));
  EXPECT_EQ(texts.encode(accounts, before, account_bytes_max).value_or(""), encode_accounts(accounts));
  EXPECT_EQ(texts.encoded(), 4u);
}

TEST_F(IdentityStoreTest, WhatIsInTheFileIsShownAlsoWhenItsFolderCannotBeSynced) {
  // Files can be made and renamed in it, but it cannot be opened; root is not restricted so.
  constexpr uid_t nobody = 65534;
  const bool is_root = ::geteuid() == 0;
  ASSERT_EQ(::chmod(folder_.c_str(), 0300), 0);
  if (is_root && (::chown(folder_.c_str(), nobody, nobody) != 0 || ::seteuid(nobody) != 0)) {
    GTEST_SKIP() << "cannot become another user";
  }
  const auto done = add_account("alice", "alice", "AKALICE");
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ASSERT_EQ(::chmod(folder_.c_str(), 0700), 0);
  EXPECT_FALSE(done);
  EXPECT_NE(text().find("AKALICE"), std::string::npos);
  EXPECT_NE(store_->account_named("alice"), nullptr);
}

TEST_F(IdentityStoreTest, AtFirstThereIsTheRootAlone) {
  const auto key = store_->find("ROOTKEY", "", now);
  ASSERT_TRUE(key);
  EXPECT_TRUE((*key)->principal->superuser);
  EXPECT_EQ((*key)->principal->account->canonical_id, "root");
  EXPECT_EQ(store_->accounts()->size(), 1u);
  EXPECT_EQ(store_->by_canonical_id("root")->id, "000000000000");
  EXPECT_EQ(error_of({"OTHER", "", ""}), Errc::invalid_access_key_id);
  EXPECT_EQ(error_of({"ROOTKEY", "", "token"}), Errc::invalid_token);
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(IdentityStoreTest, AnAccountIsThereAfterARestartAndItsSecretIsNotInTheFile) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE", "alice@example.org"));
  add_user("alice", "reader", "AKREADER");
  add_role("alice", "jobs");
  for (int round = 0; round < 2; ++round) {
    const auto key = store_->find("AKALICE", "", now);
    ASSERT_TRUE(key);
    EXPECT_EQ((*key)->credentials.secret_key, "secret of AKALICE");
    EXPECT_EQ((*key)->principal->kind, Principal::Kind::account_root);
    EXPECT_FALSE((*key)->principal->superuser);
    EXPECT_EQ((*key)->principal->account->canonical_id, "testid");
    EXPECT_EQ(store_->by_email("Alice@Example.org")->canonical_id, "testid");
    EXPECT_EQ(store_->by_canonical_id("testid")->email, "alice@example.org");
    const auto reader = store_->find("AKREADER", "", now);
    ASSERT_TRUE(reader);
    EXPECT_EQ((*reader)->principal->arn, "arn:aws:iam::" + id_of("alice") + ":user/reader");
    EXPECT_EQ((*reader)->principal->policies.size(), 1u);
    EXPECT_EQ(store_->account_named("alice")->roles.at("JOBS").policy_set.attached.size(), 1u);
    open();
  }
  EXPECT_EQ(text().find("secret of AKALICE"), std::string::npos);
  EXPECT_EQ(text().find("the root's secret"), std::string::npos);
  struct stat status{};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(IdentityStoreTest, WhatIsWrittenIsReadBackTheSame) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_user("alice", "reader", "AKREADER");
  add_role("alice", "jobs");
  const auto decoded = decode_accounts(text(), *keys_);
  ASSERT_TRUE(decoded) << decoded.error().context;
  EXPECT_EQ(encode_accounts(*decoded), text());
}

TEST_F(IdentityStoreTest, AKeyThatIsTurnedOffOrRemovedIsUnknownAtOnce) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  const uint64_t generation = store_->generation();
  ASSERT_TRUE(change("alice", [](AccountEntry& entry) { entry.keys[0].active = false; }));
  EXPECT_NE(store_->generation(), generation);
  EXPECT_EQ(error_of({"AKALICE", "", ""}), Errc::invalid_access_key_id);
  ASSERT_TRUE(change("alice", [](AccountEntry& entry) { entry.keys[0].active = true; }));
  EXPECT_EQ(error_of({"AKALICE", "", ""}), Errc::ok);
  ASSERT_TRUE(change("alice", [](AccountEntry& entry) { entry.keys.clear(); }));
  EXPECT_EQ(error_of({"AKALICE", "", ""}), Errc::invalid_access_key_id);
}

TEST_F(IdentityStoreTest, NamesKeysAndAddressesAreThereOnce) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE", "a@b"));
  const std::string before = text();
  const uint64_t generation = store_->generation();
  for (const auto& [name, id, key, email] : {std::tuple{"alice", "other", "AKOTHER", ""},
                                             {"other", "testid", "AKOTHER", ""},
                                             {"other", "other", "AKALICE", ""},
                                             {"other", "other", "ROOTKEY", ""},
                                             {"other", "other", "AKOTHER", "a@b"},
                                             {"root", "other", "AKOTHER", ""},
                                             {"other", "root", "AKOTHER", ""}}) {
    const auto added = add_account(name, id, key, email);
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, Errc::entity_already_exists);
  }
  EXPECT_EQ(text(), before);
  EXPECT_EQ(store_->generation(), generation);
  EXPECT_EQ(store_->accounts()->size(), 2u);
}

TEST_F(IdentityStoreTest, PoliciesOfGroupsCountForTheirMembers) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_user("alice", "Reader", "AKREADER");
  ASSERT_TRUE(change("alice", [](AccountEntry& entry) {
    Group group;
    group.name = "staff";
    group.members.insert("Reader");
    group.policy_set.attached.insert("arn:aws:iam::aws:policy/AmazonS3FullAccess");
    entry.groups.emplace(group.name, group);
  }));
  EXPECT_EQ((*store_->find("AKREADER", "", now))->principal->policies.size(), 2u);
  open();
  EXPECT_EQ((*store_->find("AKREADER", "", now))->principal->policies.size(), 2u);
}

TEST_F(IdentityStoreTest, AwsManagedPoliciesAreWhole) {
  EXPECT_GE(aws_managed_policies().size(), 5u);
  for (const auto& [name, policy] : aws_managed_policies()) EXPECT_NE(policy.document.policy, nullptr) << name;
  const AccountEntry account{root_account(), "root", 0, {}, {}, {}, {}, {}, {}, {}, {}};
  EXPECT_NE(find_policy(account, "arn:aws:iam::aws:policy/AmazonS3FullAccess"), nullptr);
  EXPECT_EQ(find_policy(account, "arn:aws:iam::aws:policy/amazons3fullaccess"), nullptr);
  EXPECT_EQ(find_policy(account, "arn:aws:iam::000000000000:policy/AmazonS3FullAccess"), nullptr);
  EXPECT_EQ(find_policy(account, "AmazonS3FullAccess"), nullptr);
}

// --- The file ---

TEST_F(IdentityStoreTest, AFileThatIsCutOffAnywhereIsNoFile) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_user("alice", "reader", "AKREADER");
  const std::string whole = text();
  for (size_t size = 0; size + 2 < whole.size(); size += 7) {
    write(whole.substr(0, size));
    EXPECT_FALSE(open_with(file(), *keys_, root_)) << size;
  }
  write(whole);
  EXPECT_TRUE(open_with(file(), *keys_, root_));
}

TEST_F(IdentityStoreTest, TagsVersionsAndProvidersAreThereAfterARestart) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_user("alice", "worker", "AKWORKER");
  add_role("alice", "role");
  ASSERT_TRUE(change("alice", [&](AccountEntry& entry) {
    entry.users.find("worker")->second.tags.emplace("Team", "a");
    entry.roles.find("role")->second.tags.emplace("Team", "b");
    ManagedPolicy policy;
    policy.name = "p";
    policy.document = document(allow_list);
    policy.version = 3;
    policy.versions_made = 4;
    policy.version_created_s = now;
    policy.others.emplace(1, PolicyVersion{document(allow_list), now - 5});
    entry.policies.emplace("p", policy);
    OpenIdProvider provider{"id.example.org/a", now, {"one", "two"}, {"ab"}, {{"Team", "c"}}, "OIDC1"};
    entry.open_id_providers.emplace(provider.url, std::move(provider));
  }));
  const auto again = open_with(file(), *keys_, root_);
  ASSERT_TRUE(again) << again.error();
  const AccountEntryPtr alice = (*again)->account_named("alice");
  EXPECT_EQ(alice->users.find("worker")->second.tags.find("TEAM")->second, "a");
  EXPECT_EQ(alice->roles.find("role")->second.tags.find("Team")->second, "b");
  const ManagedPolicy& policy = alice->policies.find("p")->second;
  EXPECT_EQ(policy.version, 3);
  EXPECT_EQ(policy.versions_made, 4);
  EXPECT_EQ(policy.version_created_s, now);
  ASSERT_TRUE(policy.others.contains(1));
  EXPECT_EQ(policy.others.at(1).created_s, now - 5);
  EXPECT_EQ(policy.others.at(1).document.text, allow_list);
  const OpenIdProvider& provider = alice->open_id_providers.at("id.example.org/a");
  EXPECT_EQ(provider.client_ids, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(provider.thumbprints, std::vector<std::string>{"ab"});
  EXPECT_EQ(provider.tags.at("team"), "c");
  EXPECT_EQ(provider.id, "OIDC1");
}

// Before providers had ids, they were distinguished by the second of their creation. Sessions of that time stay valid.
TEST_F(IdentityStoreTest, AProviderOfAnOlderFileHasNoId) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  ASSERT_TRUE(change("alice", [&](AccountEntry& entry) {
    entry.open_id_providers.emplace("id.example.org/a", OpenIdProvider{"id.example.org/a", now, {}, {}, {}, "OIDC1"});
  }));
  auto json = nlohmann::json::parse(text());
  json.erase("crc32c");
  for (auto& account : json["accounts"]) {
    for (auto& provider : account["open_id_providers"]) provider.erase("id");
  }
  write(json.dump());
  const auto opened = open_with(file(), *keys_, root_);
  ASSERT_TRUE(opened) << opened.error();
  const auto& provider = (*opened)->account_named("alice")->open_id_providers.at("id.example.org/a");
  EXPECT_EQ(provider_tag(provider), "made at " + std::to_string(now));
}

TEST_F(IdentityStoreTest, AProviderThatIsMadeAnewInTheSameSecondIsAnotherOne) {
  OpenIdProvider first{"id.example.org/a", now, {}, {}, {}, "OIDC1"}, second = first;
  second.id = "OIDC2";
  EXPECT_NE(provider_tag(first), provider_tag(second));
}

// A directory, or an authority of certificates, is configured at the server.
TEST_F(IdentityStoreTest, ASessionEndsWhenTheServersOwnVoucherIsGoneOrAnother) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_role("alice", "people");
  store_->set_voucher("ldap/directory", {"one"});
  const auto entry = store_->account_named("alice");
  AccessKey by;
  by.parent_key = arn_of(entry->account->id, "ldap", "/", "directory");
  by.parent_tag = "one";
  SessionContents contents = role_contents("alice", "people");
  const Credentials made = store_->make_session(contents, by, now);
  EXPECT_EQ(error_of(made), Errc::ok);
  by.parent_tag = "two";
  SessionContents other = role_contents("alice", "people");
  EXPECT_EQ(error_of(store_->make_session(other, by, now)), Errc::invalid_access_key_id);
  store_->set_voucher("ldap/directory", {"two", "three"});
  EXPECT_EQ(error_of(made), Errc::invalid_access_key_id) << "at once, although it was just looked at";
  store_->set_voucher("ldap/directory", {"three", "one"});
  EXPECT_EQ(error_of(made), Errc::ok);
  open();
  EXPECT_EQ(error_of(made), Errc::invalid_access_key_id) << "the old key is gone";
}

TEST_F(IdentityStoreTest, AFileOfTheFirstVersionIsRead) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_user("alice", "worker", "AKWORKER");
  ASSERT_TRUE(change("alice", [&](AccountEntry& entry) {
    ManagedPolicy policy;
    policy.name = "p";
    policy.created_s = now;
    policy.document = document(allow_list);
    entry.policies.emplace("p", policy);
  }));
  auto json = nlohmann::json::parse(text());
  json["version"] = 1;
  json.erase("crc32c");
  for (auto& account : json["accounts"]) {
    account.erase("open_id_providers");
    for (auto& user : account["users"]) user.erase("tags");
    for (auto& policy : account["policies"]) {
      for (const char* name : {"version", "version_created", "versions_made", "others"}) policy.erase(name);
    }
  }
  write(json.dump());
  const auto opened = open_with(file(), *keys_, root_);
  ASSERT_TRUE(opened) << opened.error();
  const ManagedPolicy& policy = (*opened)->account_named("alice")->policies.find("p")->second;
  EXPECT_EQ(policy.version, 1);
  EXPECT_EQ(policy.version_created_s, now);
}

// One bit made another valid name, or another policy.
TEST_F(IdentityStoreTest, AFlippedBitAnywhereInTheFileIsFoundOut) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_user("alice", "reader", "AKREADER");
  const std::string whole = text();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 7));
    write(flipped);
    const auto opened = open_with(file(), *keys_, root_);
    if (!opened) continue;
    // Space between the names, or the checksum's own name: the contents are unchanged.
    EXPECT_TRUE((*opened)->account_named("alice") != nullptr) << at;
    const auto value = whole.find("\"crc32c\"");
    EXPECT_TRUE(std::isspace(static_cast<unsigned char>(whole[at])) || (at >= value && at < value + 8)) << at;
  }
}

// The file of an older server.
std::string without_checksum(std::string text) {
  const size_t at = text.find("\"crc32c\"");
  return at == std::string::npos ? text : text.erase(at, text.find("\"version\"", at) - at);
}

TEST_F(IdentityStoreTest, ADamagedFileIsAnErrorThatNamesIt) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  const std::string whole = without_checksum(text());
  write(whole);
  EXPECT_TRUE(open_with(file(), *keys_, root_));
  const auto problem = [&](std::string_view from, std::string_view to) {
    std::string damaged = whole;
    const size_t at = damaged.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    write(damaged.replace(at, from.size(), to));
    const auto opened = open_with(file(), *keys_, root_);
    return opened ? std::string() : opened.error();
  };
  EXPECT_NE(problem("\"version\":2}", "\"version\":3}").find("another version"), std::string::npos);
  EXPECT_NE(problem("\"keys\"", "\"kays\"").find("identities.json"), std::string::npos);
  EXPECT_NE(problem("\"000000000000\"", "\"000000000001\"").find("lacks the root account"), std::string::npos);
  EXPECT_NE(problem("\"sealed\":\"", "\"sealed\":\"AAAA").find("cannot read the accounts"), std::string::npos);
  EXPECT_NE(problem("AKALICE", "AKMALLO").find("cannot read the accounts"), std::string::npos)
      << "a sealed secret belongs to its access key";
}

TEST_F(IdentityStoreTest, OtherMasterKeysDoNotOpenTheFile) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  const auto others = KeyRing::in_memory();
  EXPECT_FALSE(open_with(file(), *others, root_));
}

TEST_F(IdentityStoreTest, AFileThatOthersMayWriteIsNotTrusted) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  ASSERT_EQ(::chmod(file().c_str(), 0666), 0);
  EXPECT_FALSE(open_with(file(), *keys_, root_));
}

TEST_F(IdentityStoreTest, WhatACrashLeftBesideTheFileChangesNothing) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  std::ofstream(file().string() + ".new") << text().substr(0, 100);
  open();
  EXPECT_EQ(error_of({"AKALICE", "", ""}), Errc::ok);
  ASSERT_TRUE(add_account("bob", "bobid", "AKBOB"));
  open();
  EXPECT_EQ(error_of({"AKBOB", "", ""}), Errc::ok);
}

TEST_F(IdentityStoreTest, AChangeThatCannotBeWrittenIsNotShown) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  const std::string before = text();
  std::filesystem::create_directory(file().string() + ".new");  // blocks the new file
  const auto added = add_account("bob", "bobid", "AKBOB");
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::io_error);
  EXPECT_EQ(error_of({"AKBOB", "", ""}), Errc::invalid_access_key_id);
  EXPECT_EQ(text(), before);
  std::filesystem::remove(file().string() + ".new");
  EXPECT_TRUE(add_account("bob", "bobid", "AKBOB"));
}

// --- Sessions ---

TEST_F(IdentityStoreTest, ARolesSessionActsAsTheRoleUntilItEnds) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_role("alice", "jobs");
  SessionContents contents = role_contents("alice", "jobs");
  contents.policy = allow_list;
  contents.policy_arns = {"arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"};
  const Credentials made = session(contents);
  for (int round = 0; round < 3; ++round) {  // the second is answered from the cache, the third after a restart
    const auto key = store_->find(made.access_key, made.session_token, now);
    ASSERT_TRUE(key) << key.error().context;
    EXPECT_EQ((*key)->credentials.secret_key, made.secret_key);
    EXPECT_EQ((*key)->expires_s, now + 900);
    const Principal& principal = *(*key)->principal;
    EXPECT_EQ(principal.kind, Principal::Kind::assumed_role);
    EXPECT_EQ(principal.arn, "arn:aws:sts::" + id_of("alice") + ":assumed-role/jobs/job");
    EXPECT_EQ(principal.user_id, contents.subject_id + ":job");
    EXPECT_EQ(principal.policies.size(), 1u);
    EXPECT_EQ(principal.session.size(), 2u);
    EXPECT_EQ(error_of(made, now + 899), Errc::ok);
    EXPECT_EQ(error_of(made, now + 900), Errc::expired_token);
    if (round == 1) open();
  }
}

TEST_F(IdentityStoreTest, ATokenIsGoodForItsOwnKeyAloneAndOnlyWhole) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_role("alice", "jobs");
  SessionContents contents = role_contents("alice", "jobs");
  const Credentials made = session(contents);
  EXPECT_EQ(error_of({made.access_key, "", ""}), Errc::invalid_access_key_id);
  EXPECT_EQ(error_of({"ASIAOTHER", "", made.session_token}), Errc::invalid_token);
  EXPECT_EQ(error_of({"AKALICE", "", made.session_token}), Errc::invalid_token);
  EXPECT_EQ(error_of(made), Errc::ok);
  EXPECT_EQ(error_of({"ASIAOTHER", "", made.session_token}), Errc::invalid_token) << "also when it is remembered";
  for (size_t i = 0; i < made.session_token.size(); i += 13) {
    Credentials changed = made;
    changed.session_token[i] = changed.session_token[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(error_of(changed), Errc::invalid_token) << i;
  }
  EXPECT_EQ(error_of({made.access_key, "", made.session_token.substr(4)}), Errc::invalid_token);
  EXPECT_EQ(error_of({made.access_key, "", std::string(100'000, 'A')}), Errc::invalid_token);
}

TEST_F(IdentityStoreTest, ASessionEndsWithWhoeverItIsOf) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_role("alice", "jobs");
  add_user("alice", "reader", "AKREADER");
  SessionContents of_role = role_contents("alice", "jobs");
  SessionContents of_user = of_role;
  of_user.kind = Principal::Kind::user;
  of_user.subject = "reader";
  of_user.subject_id = store_->account_named("alice")->users.at("reader").id;
  const Credentials role = session(of_role), user = session(of_user);
  EXPECT_EQ(error_of(role), Errc::ok);
  EXPECT_EQ(error_of(user), Errc::ok);
  EXPECT_EQ((*store_->find(user.access_key, user.session_token, now))->principal->name, "reader");
  add_role("alice", "jobs");  // another one of the same name
  EXPECT_EQ(error_of(role), Errc::invalid_access_key_id);
  EXPECT_EQ(error_of(user), Errc::ok);
  ASSERT_TRUE(change("alice", [](AccountEntry& entry) { entry.users.clear(); }));
  EXPECT_EQ(error_of(user), Errc::invalid_access_key_id);
}

// It was valid for up to 36 hours: a leaked key could not be revoked.
TEST_F(IdentityStoreTest, ASessionEndsWithTheKeyThatItWasMadeBy) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_role("alice", "jobs");
  add_user("alice", "reader", "AKREADER");
  const auto edit_key = [&](const std::function<void(std::vector<StoredKey>&)>& edit) {
    ASSERT_TRUE(change("alice", [&](AccountEntry& entry) { edit(entry.users.at("reader").keys); }));
  };
  SessionContents of_role = role_contents("alice", "jobs"), of_user = of_role, chained = of_role, others = of_role;
  of_user.kind = Principal::Kind::user;
  of_user.subject = "reader";
  of_user.subject_id = store_->account_named("alice")->users.at("reader").id;
  const Credentials role = session(of_role, "AKREADER"), user = session(of_user, "AKREADER"), other = session(others);
  const auto by_session = store_->find(role.access_key, role.session_token, now);
  ASSERT_TRUE(by_session);
  EXPECT_EQ((*by_session)->principal->token_issued_s, now);
  const Credentials next = store_->make_session(chained, **by_session, now + 1);
  for (const auto& made : {role, user, next, other}) EXPECT_EQ(error_of(made), Errc::ok);

  edit_key([](auto& keys) { keys[0].active = false; });
  for (const auto& made : {role, user, next}) EXPECT_EQ(error_of(made), Errc::invalid_access_key_id) << "turned off";
  edit_key([](auto& keys) { keys[0].active = true; });
  EXPECT_EQ(error_of(role), Errc::ok);
  edit_key([](auto& keys) { keys.clear(); });
  for (const auto& made : {role, user, next}) EXPECT_EQ(error_of(made), Errc::invalid_access_key_id) << "deleted";
  edit_key([&](auto& keys) { keys.push_back(store_->make_key("AKREADER", "another secret", now)); });
  for (const auto& made : {role, user, next}) EXPECT_EQ(error_of(made), Errc::invalid_access_key_id) << "made anew";
  EXPECT_EQ(error_of(other), Errc::ok) << "of another key";
}

TEST_F(IdentityStoreTest, ASessionEndsWithTheProviderThatVouchedForIt) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_role("alice", "jobs");
  const auto set_provider = [&](int64_t created_s) {
    ASSERT_TRUE(change("alice", [&](AccountEntry& entry) {
      entry.open_id_providers.clear();
      OpenIdProvider provider;
      provider.url = "idp.example.org/r";
      provider.created_s = created_s;
      if (created_s != 0) entry.open_id_providers.emplace(provider.url, provider);
    }));
  };
  set_provider(now);
  const auto entry = store_->account_named("alice");
  const OpenIdProvider& provider = entry->open_id_providers.begin()->second;
  AccessKey by;
  by.parent_key = provider_arn(*entry, provider);
  by.parent_tag = provider_tag(provider);
  SessionContents first = role_contents("alice", "jobs"), second = first;
  first.attributes.tags = {{"Team", "red"}};
  first.attributes.claims = {{"idp.example.org/r:sub", {"someone"}}};
  const Credentials made = store_->make_session(first, by, now);
  const auto found = store_->find(made.access_key, made.session_token, now);
  ASSERT_TRUE(found);
  const Attributes& attributes = *(*found)->principal->attributes;
  EXPECT_EQ(attributes.tags.at("team"), "red");
  EXPECT_EQ(attributes.claims.at("idp.example.org/r:sub"), std::vector<std::string>{"someone"});
  const Credentials next = store_->make_session(second, **found, now + 1);
  EXPECT_EQ(error_of(next), Errc::ok);
  ASSERT_TRUE(change("alice", [](AccountEntry& e) { e.roles.at("jobs").tags = {{"TEAM", "blue"}, {"cost", "7"}}; }));
  const auto again = store_->find(made.access_key, made.session_token, now);
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->principal->attributes->tags.at("team"), "red") << "the session's own come first";
  EXPECT_EQ((*again)->principal->attributes->tags.at("cost"), "7");
  for (const int64_t created : {int64_t(0), now + 1}) {
    set_provider(created);
    EXPECT_EQ(error_of(made), Errc::invalid_access_key_id) << created;
    EXPECT_EQ(error_of(next), Errc::invalid_access_key_id) << created;
  }
}

// A role's session that assumed the next role got another hour, and so on without end.
TEST_F(IdentityStoreTest, SessionsThatGoOnFromOneEndWithWhatLetItIn) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_role("alice", "jobs");
  store_->set_voucher("certificate/machines", {"one"});
  AccessKey by;
  by.parent_key = arn_of(store_->account_named("alice")->account->id, "certificate", "/", "machines");
  by.parent_tag = "one";
  SessionContents contents = role_contents("alice", "jobs");
  contents.not_after_s = now + 600;
  Credentials made = store_->make_session(contents, by, now);
  EXPECT_EQ(contents.expires_s, now + 600);
  for (int64_t when = now; when < now + 400; when += 100) {
    const auto before = store_->find(made.access_key, made.session_token, when);
    ASSERT_TRUE(before);
    SessionContents next = role_contents("alice", "jobs");
    next.expires_s = when + 900;
    made = store_->make_session(next, **before, when);
    EXPECT_EQ(next.expires_s, now + 600) << when - now;
    EXPECT_EQ(error_of(made, now + 599), Errc::ok);
    EXPECT_EQ(error_of(made, now + 600), Errc::expired_token);
  }
  const auto last = store_->find(made.access_key, made.session_token, now + 500);
  ASSERT_TRUE(last);
  const auto bucket = store_->open_bucket_session(**last, {.bucket = "b"}, now + 500);
  ASSERT_TRUE(bucket);
  EXPECT_EQ(bucket->expires_s, now + 600);
}

TEST_F(IdentityStoreTest, ASessionOfTheRootEndsWhenTheRootKeyChanges) {
  SessionContents contents;
  contents.kind = Principal::Kind::account_root;
  contents.account_id = root_account_id;
  contents.expires_s = now + 900;
  const Credentials made = session(contents, "ROOTKEY");
  ASSERT_EQ(error_of(made), Errc::ok);
  EXPECT_TRUE((*store_->find(made.access_key, made.session_token, now))->principal->superuser);
  root_.secret_key = "another secret";
  open();
  EXPECT_EQ(error_of(made), Errc::invalid_access_key_id);
}

TEST_F(IdentityStoreTest, ASessionPolicyThatHasGoneIsNotNoLimit) {
  ASSERT_TRUE(add_account("alice", "testid", "AKALICE"));
  add_role("alice", "jobs");
  SessionContents contents = role_contents("alice", "jobs");
  contents.policy_arns = {"arn:aws:iam::" + id_of("alice") + ":policy/limits"};
  EXPECT_EQ(error_of(session(contents)), Errc::invalid_access_key_id);
}

TEST(SessionToken, ASessionIsReadBackTheSameAndNothingLessIsRead) {
  SessionContents contents;
  contents.access_key = "ASIAX";
  contents.secret_key = "s\"e\\cret";
  contents.expires_s = now;
  contents.account_id = "123456789012";
  contents.kind = Principal::Kind::assumed_role;
  contents.subject = "role";
  contents.policy_arns = {"arn:aws:iam::aws:policy/AmazonS3FullAccess"};
  contents.attributes.tags = {{"Team", "red"}};
  contents.attributes.transitive = {"team"};
  contents.attributes.source_identity = "someone";
  contents.attributes.claims = {{"idp.example.org:sub", {"s\"1"}}};
  contents.not_after_s = now + 5;
  const std::string text = encode_session(contents);
  EXPECT_EQ(decode_session(text), contents);
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(decode_session(text.substr(0, size)));
  for (const char* more : {R"("limit":"x")", R"("tags":[])", R"("claims":{"a":7})", R"("transitive":"team")"}) {
    std::string other = text;
    const size_t at = other.find(R"("attributes":{)") + 14;
    ASSERT_GT(at, 14u);
    EXPECT_FALSE(decode_session(other.substr(0, at) + more + "}" + other.substr(other.find("},\"expires\"", at) + 1)))
        << more;
  }
  contents.expires_s = 0;
  EXPECT_FALSE(decode_session(encode_session(contents))) << "a session without an end";
}

TEST_F(IdentityStoreTest, QuotasAreThereAfterAStartAndHoldForKeysAndOwners) {
  ASSERT_TRUE(add_account("acme", "acme-id", "AKACME"));
  add_user("acme", "alice", "AKALICE");
  const Quota of_account{.bytes = 1000, .objects = {}, .requests_per_s = 50};
  const Quota of_user{.requests_per_s = 5};
  ASSERT_TRUE(change("acme", [&](AccountEntry& entry) {
    entry.limits = make_limits(of_account);
    entry.users.find("alice")->second.limits = make_limits(of_user);
  }));
  for (int start = 0; start < 2; ++start) {
    ASSERT_NE(store_->limits_of("acme-id"), nullptr);
    EXPECT_EQ(store_->limits_of("acme-id")->quota(), of_account);
    EXPECT_EQ(store_->limits_of("nobody"), nullptr);
    const auto alice = (*store_->find("AKALICE", {}, now))->principal;
    EXPECT_EQ(alice->limits->quota(), of_user);
    EXPECT_EQ(alice->account_limits, store_->limits_of("acme-id"));
    EXPECT_EQ((*store_->find("AKACME", {}, now))->principal->limits, nullptr);
    EXPECT_EQ((*store_->find("AKACME", {}, now))->principal->account_limits, store_->limits_of("acme-id"));
    open();
  }
}

// Another server's change reloads all accounts: the consumed quota stays.
TEST_F(IdentityStoreTest, AccountsThatAreReadAnewKeepWhatWasTakenOfTheirQuotas) {
  ASSERT_TRUE(add_account("acme", "acme-id", "AKACME"));
  add_user("acme", "alice", "AKALICE");
  const Quota quota{.bytes = {}, .objects = {}, .requests_per_s = {}, .bytes_per_s = 1024};
  ASSERT_TRUE(change("acme", [&](AccountEntry& entry) {
    entry.limits = make_limits(quota);
    entry.users.find("alice")->second.limits = make_limits(quota);
  }));
  store_->limits_of("acme-id")->charge(1 * MiB, 0);
  const auto before = store_->limits_of("acme-id");
  const auto of_alice = (*store_->find("AKALICE", {}, now))->principal->limits;
  ASSERT_TRUE(store_->take(text()));
  EXPECT_EQ(store_->limits_of("acme-id"), before);
  EXPECT_NE(store_->limits_of("acme-id")->admit(1, 0), 0u);
  EXPECT_EQ((*store_->find("AKALICE", {}, now))->principal->limits, of_alice);
}

TEST_F(IdentityStoreTest, AFileWhoseQuotaIsNoneIsNotRead) {
  ASSERT_TRUE(add_account("acme", "acme-id", "AKACME"));
  ASSERT_TRUE(change("acme", [&](AccountEntry& entry) { entry.limits = make_limits(Quota{.bytes = 1000}); }));
  std::string damaged = text();
  // Of the quota: ids and sums in the file may have these digits, too.
  const size_t at = damaged.find("1000", damaged.find("\"quota\""));
  ASSERT_NE(at, std::string::npos);
  damaged.replace(at, 4, "-100");
  damaged.replace(damaged.find("\"crc32c\""), 8, "\"crc32d\"");  // like a file of an older server
  write(damaged);
  EXPECT_FALSE(open_with(file(), *keys_, root_));
}

}  // namespace
}  // namespace verbena::auth
