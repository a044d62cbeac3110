#include "../bw_test.h"
int main(void){return 1;}
