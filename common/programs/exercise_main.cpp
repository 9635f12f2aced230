#include "common/programs/exercise.hpp"

int main(int argc, char** argv) {
  return rmsnorm::run_exercise(argc, argv);
}
