# Web traffic (PackMime) over the parking lot of the Sync-TCP paper in ns-2.35, in both directions.
# `run.py` computes the arguments from a plan. Prints one line of NAME=VALUE pairs about the link
# from R0 to R1 and writes one line per response (packmime_HTTP.cc).
#
# Each argument has a name and a value; all of a line are required:
#   seed          number of the substream of ns-2's random generators
#   rate          new connections per second, in each direction
#   responses     number of responses of the forward direction after which the run ends
#   agent         class of both ends of a connection: Reno, Sack
#   segment       bytes of data per segment; ns-2 adds 40 bytes of headers
#   window        largest window in segments
#   iw minrto rto0           first window, timers in seconds
#   delack nagle ecn         seconds between the times of delayed ACKs; Nagle's algorithm and
#                 ECN-capable data (0 or 1)
#   link          rate of all links: bit/s
#   queue limit   DropTail or RED; packets. DropTail's limit includes the packet in transmission
#   times         file for the responses of the forward direction
# With RED, the arguments of common.tcl.
source common.tcl
foreach {name value} $argv { set o($name) $value }
set names {seed rate responses agent segment window iw minrto rto0 delack nagle ecn link queue limit times}
check_arguments [concat $names [red_names]]

remove-all-packet-headers
add-packet-header Flags IP TCP
set ns [new Simulator]
# RED takes its random numbers from the default generator.
for {set i 1} {$i < $o(seed)} {incr i} { $defaultRNG next-substream }

Agent/TCP set minrto_ $o(minrto)
Agent/TCP set rtxcur_init_ $o(rto0)
# Round trips are measured to the millisecond; ns-2's default is 10 ms.
Agent/TCP set tcpTick_ 0.001
Agent/TCP set window_ $o(window)
Agent/TCP set windowInit_ $o(iw)
Agent/TCP set ecn_ $o(ecn)
Agent/TCP/FullTcp set segsize_ $o(segment)
Agent/TCP/FullTcp set segsperack_ 2
Agent/TCP/FullTcp set interval_ $o(delack)
Agent/TCP/FullTcp set nodelay_ [expr !$o(nagle)]
# Access links do not drop.
Queue set limit_ 100000
Queue/DropTail set limit_ $o(limit)
Queue/RED set limit_ $o(limit)
configure_red

# Six routers in a row, and five hosts of each kind at both ends. All links have the same rate and a
# delay of 1 ms (figure 3). The delay boxes add PackMime's delay of each client and server.
for {set i 0} {$i < 6} {incr i} { set router($i) [$ns DelayBox] }
for {set i 0} {$i < 5} {incr i} {
  $ns duplex-link $router($i) $router([expr $i + 1]) $o(link) 1ms $o(queue)
}
Queue/DropTail set limit_ 100000
foreach {hosts at} {servers,forward 0 clients,forward 5 servers,reverse 5 clients,reverse 0} {
  for {set i 0} {$i < 5} {incr i} {
    set host($hosts,$i) [$ns node]
    $ns duplex-link $host($hosts,$i) $router($at) $o(link) 1ms DropTail
  }
}

# Returns a source of web traffic between the hosts of a direction.
proc web {direction server_router client_router} {
  global o host
  set web [new PackMimeHTTP]
  $web set-TCP $o(agent)
  $web set-rate $o(rate)
  set responses [new RandomVariable/PackMimeHTTPFileSize $o(rate) 1]
  set requests [new RandomVariable/PackMimeHTTPFileSize $o(rate) 0]
  set arrivals [new RandomVariable/PackMimeHTTPFlowArrive $o(rate)]
  set client_delay [new RandomVariable/PackMimeHTTPXmit $o(rate) 0]
  set server_delay [new RandomVariable/PackMimeHTTPXmit $o(rate) 1]
  foreach variable [list $responses $requests $arrivals $client_delay $server_delay] {
    $variable use-rng [generator]
  }
  $web set-rsp_size $responses
  $web set-req_size $requests
  $web set-flow_arrive $arrivals
  # Servers answer at once.
  set none [new RandomVariable/Constant]
  $none set val_ 0
  $web set-server_delay $none
  for {set i 0} {$i < 5} {incr i} {
    set server $host(servers,$direction,$i)
    set client $host(clients,$direction,$i)
    $web set-server $server
    $web set-client $client
    $client_router add-rule [$client id] [$server id] $client_delay
    $server_router add-rule [$client id] [$server id] $server_delay
  }
  return $web
}
set forward [web forward $router(0) $router(5)]
set reverse [web reverse $router(5) $router(0)]
$forward set-outfile $o(times)

set monitor [$ns monitor-queue $router(0) $router(1) ""]
set waiting [$monitor get-pkts-integrator]

# Ends the run once there are enough responses. Packets waiting are a sum over time.
proc poll {} {
  global o ns forward monitor waiting
  if {[$forward get-pairs] >= $o(responses)} {
    puts "seconds=[$ns now] arrived=[$monitor set parrivals_] dropped=[$monitor set pdrops_]\
      bytes=[$monitor set bdepartures_] waiting_packet_seconds=[$waiting set sum_]"
    flush stdout
    exit 0
  }
  $ns at [expr [$ns now] + 0.25] poll
}
$ns at 0.0 "$forward start; $reverse start"
$ns at 0.25 poll
$ns run
