// How often to save. Pure.
//
// A save costs time, and a failure costs the work since the last save. With a save of C seconds and a mean
// time between failures of M, the expected loss is smallest (to first order) at an interval of sqrt(2·C·M)
//   J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974
// and with the higher-order terms, for C < 2·M, at
//   sqrt(2·C·M) · (1 + 1/3·sqrt(C/(2·M)) + 1/9·C/(2·M)) − C,  and at M for C ≥ 2·M
//   J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22, 2006
#pragma once

namespace muster::checkpoint {

// Daly's interval between the end of a save and the beginning of the next. Both arguments above 0.
double daly_interval_s(double save_s, double mtbf_s);

// The interval to use: Daly's, but at least 1 s and at least as long as a save (there is never a second one
// in flight), and at most a day. C is the whole duration of a save: training is held up for less, but shares
// the processors with it all the time.
double advised_interval_s(double save_s, double mtbf_s);

}  // namespace muster::checkpoint
