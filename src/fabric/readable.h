// A Link that a thread can sleep on together with other descriptors.
#pragma once

namespace verbena::fabric {

class ReadableLink {
 public:
  // A descriptor that is readable when the Link's poll() may find an event, until poll() is called; -1: there is an
  // event already, or no descriptor tells.
  virtual int sleep_fd() = 0;

 protected:
  ~ReadableLink() = default;
};

}  // namespace verbena::fabric
