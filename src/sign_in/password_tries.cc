#include "sign_in/password_tries.h"

namespace verbena::sign_in {

std::optional<PasswordTries::Charge> PasswordTries::charge(const std::string& client, const std::string& name) {
  Charge wanted;
  if (client.empty()) {
    wanted.emplace_back(&by_host_, "");
  } else {
    wanted.emplace_back(&by_client_, client);
  }
  if (places_.knows(name, client)) {
    wanted.emplace_back(&by_place_, name + "\n" + client);
  } else {
    wanted.emplace_back(&by_name_, name);
    wanted.emplace_back(&all_, "");
  }
  Charge taken;
  for (auto& [attempts, key] : wanted) {
    if (!attempts->take(key)) {
      give_back(taken);
      return std::nullopt;
    }
    taken.emplace_back(attempts, std::move(key));
  }
  return taken;
}

void PasswordTries::give_back(const Charge& charge) {
  for (const auto& [attempts, key] : charge) attempts->give_back(key);
}

}  // namespace verbena::sign_in
