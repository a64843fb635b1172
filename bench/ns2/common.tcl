# Procedures that the scripts of this folder share.

# Arguments of a RED queue. With `target`, ns-2 derives thresholds and weight from the target delay
# in seconds and the mean packet size in bytes. Without it, they are given in packets.
#   min max weight     packets, packets, weight
#   target mean        seconds, bytes
#   maxp               probability
#   gentle wait marks  0 or 1
#   markp              probability up to which packets are marked; 0: any, while the average is
#                      below max
#   adaptive           Adaptive RED (0 or 1)
proc red_names {} {
  global o
  if {![info exists o(queue)] || $o(queue) != "RED"} { return {} }
  set by_target {target mean}
  set by_packets {min max weight}
  return [concat [expr {[info exists o(target)] ? $by_target : $by_packets}] {maxp gentle wait marks markp adaptive}]
}

# Reads the pairs of a name and a value in `argv` into the array `o`. Ends with an error unless they
# have exactly these names.
proc check_arguments {names} {
  global o
  foreach name $names {
    if {![info exists o($name)]} { puts stderr "argument '$name' is missing"; exit 2 }
  }
  foreach name [array names o] {
    if {[lsearch $names $name] < 0} { puts stderr "unknown argument '$name'"; exit 2 }
  }
}

# Returns a random generator in the substream of the seed.
proc generator {} {
  global o
  set random [new RNG]
  for {set i 1} {$i < $o(seed)} {incr i} { $random next-substream }
  return $random
}

# Sets the properties of all RED queues.
proc configure_red {} {
  global o
  if {$o(queue) != "RED"} { return }
  # ns-2's queue does not include the packet in transmission, here and in RED's average.
  foreach {name value} [list bytes_ false queue_in_bytes_ false linterm_ [expr 1 / $o(maxp)] \
      gentle_ $o(gentle) wait_ $o(wait) setbit_ $o(marks) use_mark_p_ [expr $o(markp) > 0] \
      mark_p_ $o(markp) adaptive_ $o(adaptive)] {
    Queue/RED set $name $value
  }
  if {[info exists o(target)]} {
    # Zeros and -1 make ns-2 derive the values.
    set own [list thresh_ 0 maxthresh_ 0 q_weight_ -1 targetdelay_ $o(target) mean_pktsize_ $o(mean)]
  } else {
    set own [list thresh_ $o(min) maxthresh_ $o(max) q_weight_ $o(weight)]
  }
  foreach {name value} $own { Queue/RED set $name $value }
}
