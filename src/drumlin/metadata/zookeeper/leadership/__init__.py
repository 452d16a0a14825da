"""Who leads, from the event loop: what the controller, leaders and replicas have written."""
