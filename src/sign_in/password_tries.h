// How often passwords may be wrong: of one name, from one address, from this host, and all of them together.
//
// Whoever guesses at a name keeps strangers out of it, its owner among them, but not from where he came in before:
// there he has tries of his own, which those of nobody else count against.
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
    Attempts::Limits name{.tries_max = 4, .forgiven_s = 300};       // and of an owner from one place
    Attempts::Limits client{.tries_max = 32, .forgiven_s = 2};      // many people may come from there
    Attempts::Limits this_host{.tries_max = 128, .forgiven_s = 1};  // or from behind a proxy here
    Attempts::Limits all{.tries_max = 256, .forgiven_s = 1};        // a few guesses at each of very many names
  };
  PasswordTries(const WallClock& clock, Limits limits)
      : by_name_(clock, limits.name),
        by_place_(clock, limits.name),
        by_client_(clock, limits.client),
        by_host_(clock, limits.this_host),
        all_(clock, limits.all) {}

  // What a try was counted by.
  using Charge = std::vector<std::pair<Attempts*, std::string>>;
  // Before anything is asked. nullopt: too many, and this one does not count. `client`: empty for this host.
  std::optional<Charge> charge(const std::string& client, const std::string& name);
  // It was no wrong password.
  static void give_back(const Charge& charge);
  void came_in(const std::string& client, const std::string& name) { places_.remember(name, client); }

 private:
  Attempts by_name_, by_place_, by_client_, by_host_, all_;
  FamiliarPlaces places_;
};

}  // namespace verbena::sign_in
