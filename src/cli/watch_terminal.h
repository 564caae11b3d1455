// Output of commands that run on: a terminal that is redrawn, or lines into a pipe that may be closed.
#pragma once

#include <termios.h>

#include <chrono>
#include <string>
#include <string_view>

namespace verbena::cli {

// An untrusted text, made safe for a terminal: control characters, changes of the writing direction, invisible
// characters and invalid UTF-8 become escapes (\x1b, \u{202e}). Wider than `most` columns of a terminal: cut, with
// "..." at its beginning, since names differ at their ends; 0: any width. Characters from U+1100 on count as wide.
std::string shown(std::string_view text, size_t most = 0);
// An untrusted text for standard output: shown() on a terminal, else as it is, since another program reads it.
std::string for_output(std::string_view text);

// Writes to standard output. False: it is closed.
bool put_lines(std::string_view text);

// From now on the first SIGINT or SIGTERM is only noted; a second one ends the program.
void note_ends();
bool end_was_asked_for();

// The whole terminal while it lives: its own page, no cursor, keys without Enter.
class Screen {
 public:
  // Whether standard input and output are a terminal.
  static bool possible();
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;

  void draw(const std::string& text);  // lines; what does not fit is cut
  // Waits for that long. False: 'q' was pressed, the terminal is gone, or the program was interrupted.
  bool rest(std::chrono::milliseconds time);

 private:
  termios before_{};
};

}  // namespace verbena::cli
