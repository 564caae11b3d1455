// What sealing costs: the parts of `./dev bench sealed` (bench/sealed.py) that need a program.
//
//   sealed_bench ciphers [SECONDS [ROUNDS]]                     a turn of each side in a round lasts SECONDS
//   sealed_bench moves [SECONDS [ROUNDS [PROVIDER ADDRESS]]]    over that device of libfabric
//
// A JSON object in each line.
#include "sealed_bench.h"

#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/aead.h"
#include "base/log.h"
#include "give_up.h"

int main(int argc, char** argv) {
  using namespace verbena::bench;
  verbena::log::set_level(verbena::log::Level::error);
  const std::string_view what = argc > 1 ? argv[1] : "";
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.2;
  const unsigned rounds = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 5;
  if (!(seconds > 0) || rounds == 0) give_up("SECONDS and ROUNDS are above zero");
  if (what == "ciphers") {
    const bool aes = verbena::fastest_aead() == verbena::AeadKind::aes_256_gcm;
    for (const CipherSpeed& row : measure_ciphers(seconds, rounds)) {
      fmt::print("{}\n", nlohmann::json{{"cipher", row.cipher},
                                        {"way", row.way},
                                        {"used_here", (row.cipher == "AES-256-GCM") == aes},
                                        {"bytes", row.bytes},
                                        {"ours_bytes_per_cpu_s", row.ours_bytes_per_cpu_s},
                                        {"openssl_bytes_per_cpu_s", row.openssl_bytes_per_cpu_s},
                                        {"ratio", row.ratio}}
                             .dump());
    }
  } else if (what == "moves") {
    MovePlace place;
    if (argc > 5) place = {argv[4], argv[5]};
    for (const MoveSpeed& row : measure_moves(place, seconds, rounds)) {
      fmt::print("{}\n", nlohmann::json{{"way", row.way},
                                        {"provider", row.provider},
                                        {"bytes_per_s", row.bytes_per_s},
                                        {"bytes_per_cpu_s", row.bytes_per_cpu_s}}
                             .dump());
    }
  } else {
    give_up("usage: sealed_bench ciphers|moves [SECONDS [ROUNDS [PROVIDER ADDRESS]]]");
  }
  std::fflush(stdout);
  std::_Exit(0);  // with the server's thread
}
