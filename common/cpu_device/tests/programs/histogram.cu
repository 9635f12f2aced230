// A histogram of two levels.
// Says: nothing
#include "bins.cuh"

int main() {
  return run(true, true);
}
