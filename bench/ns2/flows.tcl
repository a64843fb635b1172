# Long TCP flows over one bottleneck in ns-2.35. `run.py` computes the arguments from a plan. Prints
# one line of NAME=VALUE pairs, measured between `warm` and `stop`.
#
# Each argument has a name and a value; all of a line are required:
#   seed          number of the substream of ns-2's random generator
#   flows spread  number of flows, and the seconds over which their starts are spread evenly
#   agent sink    classes of the sender and the receiver, such as Newreno and TCPSink/DelAck
#   segment       bytes of data per segment; ns-2 adds 40 bytes of headers
#   iw minrto rto0 limited   first window, timers in seconds, limited transmit (0 or 1)
#   growth        windowOption_: 1 for Reno, 8 for HighSpeed TCP
#   delack ecn    seconds until a delayed ACK; ECN-capable data (0 or 1)
#   rate delay    bottleneck: bit/s, seconds
#   queue limit   DropTail or RED; packets. DropTail's limit includes the packet in transmission
#   access low high          access links: bit/s, and the range of their delays in seconds
#   warm stop     seconds
# With RED:
#   min max weight maxp      packets, packets, weight, probability
#   gentle wait marks        0 or 1
#   markp         probability up to which packets are marked; 0: any, while the average is below max
#   adaptive      Adaptive RED (0 or 1)
# With the agent Vegas:
#   alpha beta gamma         packets
set names {seed flows spread agent sink segment iw minrto rto0 limited growth delack ecn rate delay queue limit access low high warm stop}
foreach {name value} $argv { set o($name) $value }
if {[info exists o(queue)] && $o(queue) == "RED"} { lappend names min max weight maxp gentle wait marks markp adaptive }
if {[info exists o(agent)] && $o(agent) == "Vegas"} { lappend names alpha beta gamma }
foreach name $names {
  if {![info exists o($name)]} { puts stderr "argument '$name' is missing"; exit 2 }
}
foreach name [array names o] {
  if {[lsearch $names $name] < 0} { puts stderr "unknown argument '$name'"; exit 2 }
}

set ns [new Simulator]
# RED takes its random numbers from the default generator.
set random [new RNG]
for {set i 1} {$i < $o(seed)} {incr i} { $random next-substream; $defaultRNG next-substream }
# With ECN, no counter has all timeouts, so awk counts their events.
set events [open [list | awk "/TIMEOUT/ && \$2 >= $o(warm) {n++} END {print n + 0}"] r+]
$ns eventtrace-all $events

Agent/TCP set packetSize_ $o(segment)
Agent/TCP set windowInit_ $o(iw)
Agent/TCP set window_ 10000
Agent/TCP set windowOption_ $o(growth)
Agent/TCP set minrto_ $o(minrto)
Agent/TCP set rtxcur_init_ $o(rto0)
# Round trips are measured to the millisecond; ns-2's default is 10 ms.
Agent/TCP set tcpTick_ 0.001
Agent/TCP set singledup_ $o(limited)
Agent/TCPSink/DelAck set interval_ $o(delack)
Agent/TCPSink/Sack1/DelAck set interval_ $o(delack)
Agent/TCP set ecn_ $o(ecn)
if {$o(agent) == "Vegas"} {
  foreach name {alpha beta gamma} { Agent/TCP/Vegas set v_${name}_ $o($name) }
}
# Only the bottleneck drops.
Queue set limit_ 100000

set left [$ns node]
set right [$ns node]
if {$o(queue) == "RED"} {
  # ns-2's queue does not include the packet in transmission, here and in RED's average.
  foreach {name value} [list bytes_ false queue_in_bytes_ false thresh_ $o(min) maxthresh_ $o(max) \
      q_weight_ $o(weight) linterm_ [expr 1 / $o(maxp)] gentle_ $o(gentle) wait_ $o(wait) \
      setbit_ $o(marks) use_mark_p_ [expr $o(markp) > 0] mark_p_ $o(markp) adaptive_ $o(adaptive)] {
    Queue/RED set $name $value
  }
}
$ns simplex-link $left $right $o(rate) $o(delay) $o(queue)
$ns simplex-link $right $left $o(rate) $o(delay) DropTail
$ns queue-limit $left $right $o(limit)

for {set i 0} {$i < $o(flows)} {incr i} {
  set from [$ns node]
  set to [$ns node]
  $ns duplex-link $from $left $o(access) [$random uniform $o(low) $o(high)] DropTail
  $ns duplex-link $right $to $o(access) [$random uniform $o(low) $o(high)] DropTail
  set tcp [new Agent/TCP/$o(agent)]
  set sink [new Agent/$o(sink)]
  $ns attach-agent $from $tcp
  $ns attach-agent $to $sink
  $ns connect $tcp $sink
  set ftp [new Application/FTP]
  $ftp attach-agent $tcp
  $ns at [expr $o(spread) * $i / double($o(flows))] "$ftp start"
}

set monitor [$ns monitor-queue $left $right ""]
set waiting [$monitor get-pkts-integrator]

# Returns the counts since the start: packets that arrived, packets dropped, bytes sent, and packets
# waiting times seconds.
proc counts {} {
  global monitor waiting
  return [list [$monitor set parrivals_] [$monitor set pdrops_] [$monitor set bdepartures_] \
    [$waiting set sum_]]
}

$ns at $o(warm) { set before [counts] }
$ns at $o(stop) {
  set line {}
  foreach name {arrived dropped bytes waiting_packet_seconds} old $before new [counts] {
    lappend line "$name=[expr $new - $old]"
  }
  close $events write
  lappend line "timeouts=[gets $events]"
  puts [join $line " "]
  exit 0
}
$ns run
