# Long TCP flows over one bottleneck in ns-2.35. `run.py` computes the arguments from a plan. Prints
# one line of NAME=VALUE pairs, measured between `warm` and `stop`.
#
# Each argument has a name and a value; all of a line are required:
#   seed          number of the substream of ns-2's random generator
#   flows spread  number of flows, and the seconds over which their starts are spread evenly
#   agent sink    classes of the sender and the receiver, such as Newreno and TCPSink/DelAck
#   segment       bytes of data per segment; ns-2 adds 40 bytes of headers
#   window        largest window in segments
#   iw minrto rto0 limited   first window, timers in seconds, limited transmit (0 or 1)
#   growth        windowOption_: 1 for Reno, 8 for HighSpeed TCP
#   delack ecn    seconds until a delayed ACK; ECN-capable data (0 or 1)
#   rate delay    bottleneck: bit/s, seconds
#   queue limit   DropTail or RED; packets. DropTail's limit includes the packet in transmission
#   access low high          access links: bit/s, and the range of their delays in seconds
#   starved       count starved flows in windows of 1 and 10 s (0 or 1)
#   warm stop     seconds
# With RED, the arguments of common.tcl. With the agent Vegas:
#   alpha beta gamma         packets
source common.tcl
foreach {name value} $argv { set o($name) $value }
set names {seed flows spread agent sink segment window iw minrto rto0 limited growth delack ecn rate delay queue limit access low high starved warm stop}
if {[info exists o(agent)] && $o(agent) == "Vegas"} { lappend names alpha beta gamma }
check_arguments [concat $names [red_names]]

set ns [new Simulator]
# RED takes its random numbers from the default generator.
set random [generator]
for {set i 1} {$i < $o(seed)} {incr i} { $defaultRNG next-substream }
# With ECN, no counter has all timeouts, so awk counts their events.
set events [open [list | awk "/TIMEOUT/ && \$2 >= $o(warm) {n++} END {print n + 0}"] r+]
$ns eventtrace-all $events

Agent/TCP set packetSize_ $o(segment)
Agent/TCP set windowInit_ $o(iw)
Agent/TCP set window_ $o(window)
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
configure_red
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
  $tcp set fid_ $i
  set ftp [new Application/FTP]
  $ftp attach-agent $tcp
  $ns at [expr $o(spread) * $i / double($o(flows))] "$ftp start"
}

set monitor [$ns monitor-queue $left $right ""]
set waiting [$monitor get-pkts-integrator]

# Windows in which the number of starved flows is counted, in seconds.
set windows [expr {$o(starved) ? {1 10} : {}}]
foreach window $windows { set starved($window) 0; set shares($window) 0 }
if {$o(starved)} {
  set flows [$ns makeflowmon Fid]
  $ns attach-fmon [$ns link $left $right] $flows
}

# Returns the bytes of a flow that crossed the bottleneck.
proc crossed {flow} {
  global flows
  set found [[$flows classifier] lookup auto 0 0 $flow]
  if {$found == ""} { return 0 }
  return [$found set bdepartures_]
}

# Counts the flows that got less than 5 % of their share of the link in the window that ends now.
# Repeats until the end.
proc count_starved {window} {
  global o ns starved shares last
  set share [expr $window * $o(rate) / 8 / $o(flows)]
  for {set i 0} {$i < $o(flows)} {incr i} {
    set now [crossed $i]
    if {[info exists last($window,$i)]} {
      incr shares($window)
      if {$now - $last($window,$i) < 0.05 * $share} { incr starved($window) }
    }
    set last($window,$i) $now
  }
  $ns at [expr [$ns now] + $window] "count_starved $window"
}
foreach window $windows { $ns at $o(warm) "count_starved $window" }

# Returns the counts since the start: packets that arrived, packets dropped, bytes sent, and packets
# waiting times seconds.
proc counts {} {
  global monitor waiting
  return [list [$monitor set parrivals_] [$monitor set pdrops_] [$monitor set bdepartures_] \
    [$waiting set sum_]]
}

$ns at $o(warm) { set before [counts] }
# The last window ends before the end of the run.
$ns at [expr $o(stop) + 1e-6] {
  set line {}
  foreach name {arrived dropped bytes waiting_packet_seconds} old $before new [counts] {
    lappend line "$name=[expr $new - $old]"
  }
  close $events write
  lappend line "timeouts=[gets $events]"
  foreach window $windows { lappend line "starved_$window=$starved($window)" "shares_$window=$shares($window)" }
  puts [join $line " "]
  exit 0
}
$ns run
