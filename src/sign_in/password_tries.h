// Limits on wrong passwords: of one name, from one address, from this host, and of all together.
//
// An attacker that guesses at a name blocks it for all, its owner included, except from the owner's familiar addresses:
// those have tries of their own, which no other address uses up.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sign_in/attempts.h"
#include "sign_in/familiar_places.h"

namespace verbena::sign_in {

// Thread-safe.
class PasswordTries {
 public:
  struct Limits {
    Attempts::Limits name{.tries_max = 4, .forgiven_s = 300};       // and of an owner from one familiar address
    Attempts::Limits client{.tries_max = 32, .forgiven_s = 2};      // many users may share it
    Attempts::Limits this_host{.tries_max = 128, .forgiven_s = 1};  // or come from behind a proxy here
    Attempts::Limits all{.tries_max = 256, .forgiven_s = 1};        // a few guesses at each of very many names
  };
  PasswordTries(const WallClock& clock, Limits limits)
      : by_name_(clock, limits.name),
        by_place_(clock, limits.name),
        by_client_(clock, limits.client),
        by_host_(clock, limits.this_host),
        all_(clock, limits.all) {}

  // The limits that a try was charged to.
  using Charge = std::vector<std::pair<Attempts*, std::string>>;
  // Called before the password is checked. nullopt: too many, and this one is not counted. `client`: empty for this
  // host.
  std::optional<Charge> charge(const std::string& client, const std::string& name);
  // Returns the charge of a try that was not a wrong password.
  static void give_back(const Charge& charge);
  void came_in(const std::string& client, const std::string& name) { places_.remember(name, client); }

 private:
  Attempts by_name_, by_place_, by_client_, by_host_, all_;
  FamiliarPlaces places_;
};

}  // namespace verbena::sign_in
