"""Changes of leaders, ISRs and replicas, made by the controller, by leaders and by replicas."""
