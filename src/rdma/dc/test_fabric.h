// A double of libibverbs and libmlx5 with DC queue pairs: it checks what it is told as the kernel's mlx5 driver does,
// and moves bytes between the server's memory and that of a test's clients when an operation completes, not before.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rdma/dc/device.h"

namespace verbena::rdma::dc::test {

// One exists at a time. Thread-safe, but for its plain members: those change while no operation is posted.
class Fabric {
 public:
  Fabric();
  ~Fabric();
  Fabric(const Fabric&) = delete;
  const Verbs& verbs() const;

  // A device of the server, as it is found when it is opened or its port is read.
  struct Host {
    std::string name = "mlx5_0";
    bool mlx5 = true, has_dc = true, active = true, ethernet = true, opens = true;
    std::vector<std::string> addresses{"127.0.0.1"};  // of its GIDs
    ibv_mtu mtu = IBV_MTU_4096;
    std::vector<uint16_t> partitions{0xffff};
    uint16_t lid = 0;
    uint8_t lid_bits = 0;
    bool needs_gid = false;
  };
  std::vector<Host> hosts{Host{}};

  // A client's DC target, and the memory that it lends by it.
  struct Lent {
    MutableBytes memory;
    bool readable = true, writable = true;
  };
  struct Client {
    std::string address = "127.0.0.1";  // its GID
    uint16_t lid = 0;
    uint64_t key = 0xffeeddcc;      // cuObject's default
    std::map<uint32_t, Lent> lent;  // by remote key
  };
  std::map<uint32_t, Client> clients;  // by the target's number

  bool holds = false;    // operations do not complete until release()
  int fail_status = 0;   // of completions, else 0
  int path_error = 0;    // errno of address handles that are made
  int make_error = 0;    // errno of queue pairs that are made
  int post_error = 0;    // of operations that are posted
  bool is_gone = false;  // the device was removed
  // Not 0: writes that are held when their queue pair is destroyed were on the wire, and land after this.
  std::chrono::milliseconds lands_late{0};
  size_t lies = 0;    // what the kernel would have refused, or objects that ended in a wrong order
  size_t routed = 0;  // address handles on InfiniBand that have a GID
  size_t initiators_made = 0, paths_made = 0, paths_asked = 0, devices_opened = 0;
  size_t ports_read = 0;
  size_t initiators_max = 0, regions_max = 0;  // that existed at once
  std::thread::id region_ended_in;             // the thread that ended the first registration that ended

  void release();  // completes what is held, in order
  size_t held();
  size_t initiators();  // that exist
  size_t objects();     // of all kinds

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// The text of a descriptor, as cuObject's clients send it.
std::string descriptor(uint64_t address, uint64_t size, uint32_t key, uint32_t target, const std::string& gid_address,
                       uint16_t lid = 0);
rc::Gid gid_of(const std::string& address);

}  // namespace verbena::rdma::dc::test
