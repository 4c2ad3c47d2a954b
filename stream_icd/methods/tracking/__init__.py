"""Track communities over time: their stable ids and their lifecycle events.

Pure functions: windows in, events out. A dynamic community is a chain of communities of single
windows, as in Greene, Doyle and Cunningham, *Tracking the Evolution of Communities in Dynamic
Social Networks* (ASONAM 2010); mergers and splits are those of Asur, Parthasarathy and Ucar, *An
Event-based Framework for Characterizing the Evolutionary Behavior of Interaction Graphs* (KDD
2007), without their restriction to pairs.
"""
