// What commands that go on write on: a terminal that is drawn anew, or lines into a pipe that may be closed.
#pragma once

#include <termios.h>

#include <chrono>
#include <string>
#include <string_view>

namespace verbena::cli {

// A text of somebody else's making, as a terminal may have it: control characters, what turns the writing's direction,
// invisible characters and what is no UTF-8 come out as escapes (\x1b, \u{202e}). Longer than `most` characters: cut,
// with
// "..." at its beginning, since it is their ends in which names differ; 0: as long as it is.
std::string shown(std::string_view text, size_t most = 0);

// To standard output. False: nobody reads any more.
bool put_lines(std::string_view text);

// From now on SIGINT and SIGTERM are only noted, once: a second one ends the program.
void note_ends();
bool end_was_asked_for();

// The whole terminal, as long as it is there: its own page, no cursor, keys without Enter.
class Screen {
 public:
  // Whether standard input and output are a terminal.
  static bool possible();
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;

  void draw(const std::string& text);  // lines; what does not fit is cut
  // Waits for so long. False: 'q' was pressed, the terminal has gone, or an end was asked for.
  bool rest(std::chrono::milliseconds time);

 private:
  termios before_{};
};

}  // namespace verbena::cli
