// Precompiled for every room's tests.
#pragma once

#include "precompiled.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
