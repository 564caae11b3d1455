// Key rings over files of a test, alone and sharing texts as the servers of a cluster do.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "auth/keyring.h"

namespace verbena::auth {

class KeyRingTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/verbena-keyring-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<KeyRing> open() {
    auto ring = KeyRing::open(keys(), known());
    EXPECT_TRUE(ring) << ring.error();
    return ring ? std::move(*ring) : nullptr;
  }
  std::string open_error() {
    auto ring = KeyRing::open(keys(), known());
    return ring ? "" : ring.error();
  }
  std::filesystem::path keys() const { return folder_ / "master.keys"; }
  std::filesystem::path known() const { return folder_ / "master.ids"; }
  std::string text_of(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
};

inline std::string opened(const KeyRing& ring, std::string_view sealed, std::string_view context) {
  auto plain = ring.unseal(as_bytes(sealed), context);
  return plain ? std::string(plain->text()) : std::string(to_string(plain.error().code));
}

// The ids of all servers in a test.
class SharedIds final : public SharedText {
 public:
  Result<std::optional<std::string>> read() override {
    if (unreadable) return fail(Errc::service_unavailable, "unreadable");
    return text;
  }
  Result<bool> replace(const std::optional<std::string>& before, const std::string& next) override {
    meanwhile();
    if (text != before) return false;
    text = next;
    if (lose_answer) return fail(Errc::service_unavailable, "answer lost");
    told();
    return true;
  }
  std::optional<std::string> text;
  bool lose_answer = false, unreadable = false;
  std::function<void()> meanwhile = [] {}, told = [] {};
};

class SharedKeyRingTest : public KeyRingTest {
 protected:
  std::expected<std::unique_ptr<KeyRing>, std::string> join(const std::string& server) {
    std::filesystem::create_directory(folder_ / server);
    auto ring = KeyRing::open(key_file(server), id_file(server), KeyRing::Shared{ids_, sealed_});
    if (!ring) return ring;
    if (auto shared = (*ring)->share(); !shared) return std::unexpected(shared.error());
    return ring;
  }
  std::filesystem::path key_file(const std::string& server) const { return folder_ / server / "master.keys"; }
  std::filesystem::path id_file(const std::string& server) const { return folder_ / server / "master.ids"; }
  void copy_keys(const std::string& from, const std::string& to) {
    std::filesystem::create_directory(folder_ / to);
    std::filesystem::copy_file(key_file(from), key_file(to), std::filesystem::copy_options::overwrite_existing);
  }
  // From now on these servers are told of each change, as over a cluster.
  void tell(std::vector<KeyRing*> rings) {
    ids_.told = sealed_.told = [this, rings] {
      for (KeyRing* ring : rings) (void)ring->take(ids_.text, sealed_.text);
    };
  }
  std::string rotate(const std::string& server) {
    const auto added = KeyRing::rotate(key_file(server));
    EXPECT_TRUE(added) << added.error();
    return added.value_or("");
  }
  SharedIds ids_, sealed_;
};

}  // namespace verbena::auth
